package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// compare finds what is wrong with the servers together. Its findings belong to none of them.
func (c *checkup) compare(reports []*nodeReport) []finding {
	if len(reports) < 2 {
		return nil
	}
	findings := sameServer(reports)
	l := levelOK
	if len(reports)%2 == 0 {
		l = levelWarning
	}
	number := fmt.Sprintf("there are %d servers, of which %d have to be up", len(reports), len(reports)/2+1)
	return append(append(findings, find("even", l, "", number)), spread(reports)...)
}

// sameServer finds addresses behind which there is the same process.
func sameServer(reports []*nodeReport) (findings []finding) {
	addresses := make(map[string][]string)
	for _, r := range reports {
		if id := r.info["run_id"]; id != "" {
			addresses[id] = append(addresses[id], r.node.Address)
		}
	}
	for _, r := range reports { // in the order in which they were named
		if same := addresses[r.info["run_id"]]; len(same) > 1 && same[0] == r.node.Address {
			findings = append(findings, find("same-server", levelError, "", strings.Join(same, " and ")+" are one server (run_id "+r.info["run_id"]+")"))
		}
	}
	if len(findings) == 0 && len(addresses) == len(reports) {
		findings = append(findings, find("same-server", levelOK, "", "no two of them are one server"))
	}
	return findings
}

// spread compares the clocks of the servers with each other: each of them may be within the limit, on either
// side of ours.
func spread(reports []*nodeReport) []finding {
	var timed []*nodeReport
	for _, r := range reports {
		if r.timed && !r.has("clock-skew") {
			timed = append(timed, r)
		}
	}
	if len(timed) < 2 {
		return nil
	}
	byClock := func(a, b *nodeReport) int { return int(a.offset - b.offset) }
	last, front := slices.MinFunc(timed, byClock), slices.MaxFunc(timed, byClock)
	apart, l := front.offset-last.offset, levelOK
	if apart-front.fuzz-last.fuzz > maxSkew {
		l = levelWarning
	}
	return []finding{find("clock-skew", l, "", fmt.Sprintf("the clocks of %s and %s are %v apart",
		front.node.Address, last.node.Address, max(rough(apart), time.Microsecond)))}
}
