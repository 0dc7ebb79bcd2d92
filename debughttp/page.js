"use strict";
// The page asks for itself as JSON each second, and lets the bars run down in between. It only ever sets the
// text of elements that are there or that it copies from the templates of the page.
(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const form = $("form"), button = $("#pause"), state = $("#state");
  const patience = 5000, pace = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1000 : 100;
  let paused = false, asking = null, timer = 0, typing = 0;
  let heldAt = 0, first = null; // when the figures were true, and those that we have seen first
  const rows = new Map(); // of the locks that are held, with what they were when we asked

  // brief and round do what the functions of that name do on the server.
  const brief = ms => {
    const s = ms / 1000, whole = Math.floor;
    if (ms <= 0) return "0 s";
    if (ms < 1) return `${whole(ms * 1000)} µs`;
    if (s < 1) return `${whole(ms)} ms`;
    if (s < 60) return `${(whole(s * 10) / 10).toFixed(1)} s`;
    if (s < 3600) return `${whole(s / 60)} min ${whole(s % 60)} s`;
    if (s < 86400) return `${whole(s / 3600)} h ${whole(s % 3600 / 60)} min`;
    return `${whole(s / 86400)} d ${whole(s % 86400 / 3600)} h`;
  };
  const round = ms => brief(ms).replace(/\.0 s$/, " s").replace(/ (min|h|d) 0 \w+$/, " $1");
  // Text that stays is not touched, so that what somebody has selected stays selected.
  const write = (element, value) => {
    const text = String(value ?? "");
    if (element.textContent !== text) element.textContent = text;
  };
  const fill = (row, values) => {
    for (const [field, value] of Object.entries(values)) write($(`[data-f="${field}"]`, row), value);
  };

  // list makes the rows of a table those of items, and keeps the rows that it has for the same names.
  const list = (id, template, items, nameOf, show) => {
    const body = $(`#${id} tbody`), had = new Map();
    for (const row of [...body.children]) {
      if (row.dataset.name === undefined || had.has(row.dataset.name)) row.remove();
      else had.set(row.dataset.name, row);
    }
    let place = body.firstElementChild;
    for (const item of items) {
      const name = nameOf(item);
      let row = had.get(name);
      if (row) had.delete(name);
      else {
        row = $(`#${template}`).content.firstElementChild.cloneNode(true);
        row.dataset.name = name;
      }
      show(row, item);
      if (row === place) place = place.nextElementSibling;
      else body.insertBefore(row, place);
    }
    for (const row of had.values()) row.remove();
    $(`[data-none="${id}"]`).hidden = items.length > 0;
  };
  const more = (id, shown, left) => {
    const line = $(`[data-more="${id}"]`);
    line.hidden = left === 0;
    write($("b", line), left);
    write($(`[data-n="${id}"]`), shown + left);
  };

  const showFigures = stats => {
    first ??= stats;
    const mean = (s, sum, n) => brief(s[sum] / Math.max(s[n], 1));
    for (const element of document.querySelectorAll("[data-s]")) {
      const [name, server] = element.dataset.s.split(".");
      if (name === "wait" || name === "hold") {
        write(element, name === "wait" ? mean(stats, "wait_ms", "acquired") : mean(stats, "hold_ms", "released"));
        continue;
      }
      const value = server ? stats[name][server] : stats[name];
      const rise = value - (server ? first[name][server] : first[name]);
      if (name === "held" || name === "waiting" || rise === 0) write(element, value);
      else if (element.textContent !== `${value} +${rise}`) {
        const small = document.createElement("small");
        small.textContent = `+${rise}`;
        small.title = "since this page was opened";
        element.replaceChildren(`${value} `, small);
      }
      if (element.dataset.bad !== undefined) element.parentElement.classList.toggle("bad", value > 0);
    }
  };

  const tick = () => {
    const passed = performance.now() - heldAt;
    for (const [row, lock] of rows) {
      const left = Math.max(lock.left_ms - passed, 0);
      $("meter", row).value = left;
      row.classList.toggle("ending", left < lock.ttl_ms / 4);
      row.classList.toggle("late", left >= lock.ttl_ms / 4 && left < lock.ttl_ms / 2);
      fill(row, { left: left < 1000 ? `${(left / 1000).toFixed(1)} s` : brief(left), age: brief(lock.age_ms + passed) });
    }
  };
  const showHeld = (row, lock) => {
    const meter = $("meter", row);
    Object.assign(meter, { max: lock.ttl_ms, optimum: lock.ttl_ms, high: lock.ttl_ms / 2, low: lock.ttl_ms / 4 });
    fill(row, {
      shown: lock.shown, what: lock.what, owner: lock.owner, fence: lock.fence, ttl: round(lock.ttl_ms),
      waiting: lock.idle ? `${lock.waiting}, kept idle` : lock.waiting,
    });
    rows.set(row, lock);
  };
  const showWaited = (row, lock) => fill(row, { shown: lock.shown, what: lock.what, waiting: lock.waiting, error: lock.error || "no try has failed yet" });
  const showEvent = (row, e) => {
    row.classList.toggle("bad", e.trouble);
    fill(row, { at: e.at.slice(11, 23), event: e.event, shown: e.shown, text: e.text });
  };

  const show = (look, asked) => {
    heldAt = asked;
    rows.clear();
    const key = lock => `${lock.kind} ${lock.shown} ${lock.key}`, event = e => String(e.number);
    list("held", "t-held", look.held, key, showHeld);
    list("waited_for", "t-waited_for", look.waited_for, key, showWaited);
    list("trouble", "t-event", look.trouble, event, showEvent);
    list("events", "t-event", look.events, event, showEvent);
    more("held", look.held.length, look.more.held);
    more("waited_for", look.waited_for.length, look.more.waited_for);
    write($('[data-n="trouble"]'), look.trouble.length);
    write($('[data-n="events"]'), look.events.length);
    write($("#now"), look.at.slice(0, 19).replace("T", " ") + $("#now").textContent.slice(19));
    showFigures(look.stats);
    tick();
  };

  // tell says how things are, to a screen reader only when that has changed.
  const tell = (kind, text) => {
    document.body.className = kind;
    write(state, text);
  };
  const address = format => {
    const url = new URL(location.href);
    for (const [name, value] of new FormData(form)) url.searchParams.set(name, value);
    if (format) url.searchParams.set("format", format);
    return url;
  };

  const ask = async () => {
    clearTimeout(timer);
    asking?.abort();
    const mine = asking = new AbortController(), asked = performance.now();
    const giveUp = setTimeout(() => mine.abort(), patience);
    try {
      const answer = await fetch(address("json"), { signal: mine.signal, cache: "no-store" });
      if (!answer.ok) throw new Error(`the server says ${answer.status}`);
      const look = await answer.json();
      if (mine !== asking) return; // somebody wants to see something else by now
      // The answer is older than now, and younger than the question.
      show(look, asked);
      tell(paused ? "" : "live", paused ? "paused" : "live");
    } catch (error) {
      if (mine !== asking) return;
      const why = error.name === "AbortError" ? "no answer" : error.name === "TypeError" ? "no connection" : error.message;
      tell("stale", `${why}: what you see is old`);
    } finally {
      clearTimeout(giveUp);
    }
    if (!paused && !document.hidden) timer = setTimeout(ask, 1000);
  };

  button.addEventListener("click", () => {
    paused = !paused;
    write(button, paused ? "Resume" : "Pause");
    if (!paused) return ask();
    clearTimeout(timer);
    asking?.abort();
    asking = null;
    tell("", "paused");
  });
  const choose = () => {
    history.replaceState(null, "", address());
    ask();
  };
  form.addEventListener("submit", event => { event.preventDefault(); choose(); });
  form.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(choose, 150);
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !paused) ask(); });
  setInterval(() => { if (!paused && !document.hidden) tick(); }, pace);
  button.hidden = false;
  $("#show").hidden = true;
  ask();
})();
