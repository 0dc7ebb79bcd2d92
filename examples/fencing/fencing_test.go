// Package fencing runs the code that docs/fencing.md shows, read from that page as it stands.
package fencing

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // registers the driver

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/internal/redistest"
)

// shown returns the page's blocks of code in a language.
func shown(t *testing.T, language string, wanted int) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "fencing.md"))
	require.NoError(t, err)
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(page, -1) {
		blocks = append(blocks, string(m[1]))
	}
	require.Len(t, blocks, wanted)
	return blocks
}

// holders returns the fences of two holders. The first one lost the lock without noticing.
func holders(t *testing.T, s *redistest.Server) (sleeper, successor int64) {
	t.Helper()
	hold := func() int64 {
		c := redimutex.NewClient([]redimutex.Pool{s.Pool()}, redimutex.WithFencing())
		t.Cleanup(func() { c.Close() })
		m := c.Mutex("lock")
		require.NoError(t, m.LockContext(context.Background(), 0))
		return m.Lease().Fence()
	}
	sleeper = hold()
	s.Do("DEL", "lock") // what its expiry does
	return sleeper, hold()
}

func TestARedisValueTakesNoWriteFromAnEarlierHolder(t *testing.T) {
	s := redistest.Start(t)
	sleeper, successor := holders(t, s)
	require.Greater(t, successor, sleeper)
	pool := s.Pool()
	script := redis.NewScript(1, shown(t, "lua", 1)[0])
	write := func(fence int64, value string) int {
		c := pool.Get()
		defer c.Close()
		n, err := redis.Int(script.Do(c, "resource", fence, value))
		require.NoError(t, err)
		return n
	}
	assert.Equal(t, 1, write(sleeper, "before the pause"))
	assert.Equal(t, 1, write(sleeper, "a holder may write again"))
	assert.Equal(t, 1, write(successor, "the successor's"))
	assert.Equal(t, 0, write(sleeper, "after the pause"))
	value, err := redis.String(s.Do("HGET", "resource", "value"), nil)
	require.NoError(t, err)
	assert.Equal(t, "the successor's", value)
	assert.Equal(t, 1, write(successor, "once more"))
	assert.Equal(t, 1, write(successor+1, "with the very next fence"))
	assert.Equal(t, 0, write(successor, "one too low"))
}

// A database has the tables of the page.
type database struct {
	t *testing.T
	*sql.DB
	update, insert, raise string
}

func open(t *testing.T) *database {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "invoices.db"))
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	s := shown(t, "sql", 5)
	for _, create := range []string{s[0], s[3]} {
		_, err := db.Exec(create)
		require.NoError(t, err)
	}
	return &database{t, db, s[1], s[2], s[4]}
}

// changed runs a statement and returns how many rows it changed.
func (d *database) changed(statement string, total, fence int64) int64 {
	d.t.Helper()
	r, err := d.Exec(statement, sql.Named("id", 7), sql.Named("total", total), sql.Named("fence", fence), sql.Named("name", "invoice:7"))
	require.NoError(d.t, err)
	n, err := r.RowsAffected()
	require.NoError(d.t, err)
	return n
}

func (d *database) total() (n int64) {
	d.t.Helper()
	require.NoError(d.t, d.QueryRow(`SELECT total FROM invoices WHERE id = 7`).Scan(&n))
	return n
}

func TestARowTakesNoWriteFromAnEarlierHolder(t *testing.T) {
	sleeper, successor := holders(t, redistest.Start(t))
	db := open(t)
	_, err := db.Exec(`INSERT INTO invoices (id, total) VALUES (7, 0)`)
	require.NoError(t, err)
	assert.EqualValues(t, 1, db.changed(db.update, 10, sleeper), "a row that begins at 0 lets everybody in")
	assert.EqualValues(t, 1, db.changed(db.update, 11, sleeper), "a holder may write again")
	assert.EqualValues(t, 1, db.changed(db.update, 20, successor))
	assert.EqualValues(t, 0, db.changed(db.update, 12, sleeper), "after the pause")
	assert.EqualValues(t, 20, db.total())
}

func TestARowThatMayNotExistTakesNoWriteFromAnEarlierHolder(t *testing.T) {
	sleeper, successor := holders(t, redistest.Start(t))
	db := open(t)
	assert.EqualValues(t, 1, db.changed(db.insert, 20, successor))
	assert.EqualValues(t, 0, db.changed(db.insert, 12, sleeper), "after the pause")
	assert.EqualValues(t, 1, db.changed(db.insert, 21, successor), "a holder may write again")
	assert.EqualValues(t, 21, db.total())
}

func TestRaisingTheFenceOfALockShutsEarlierHoldersOutBeforeAnythingIsRead(t *testing.T) {
	sleeper, successor := holders(t, redistest.Start(t))
	db := open(t)
	assert.EqualValues(t, 1, db.changed(db.raise, 0, sleeper))
	assert.EqualValues(t, 1, db.changed(db.raise, 0, sleeper), "again, in its next transaction")
	assert.EqualValues(t, 1, db.changed(db.raise, 0, successor), "which then only reads")
	assert.EqualValues(t, 0, db.changed(db.raise, 0, sleeper), "so this transaction is rolled back")
}
