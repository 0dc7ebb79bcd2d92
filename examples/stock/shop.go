//go:build unix

package main

import (
	"context"
	"database/sql"
	"errors"

	_ "modernc.org/sqlite" // registers the driver
)

// Each line of defence in SQL is one more condition of the UPDATE.
const (
	schema = `
		CREATE TABLE items (
			id      INTEGER PRIMARY KEY,
			stock   INTEGER NOT NULL,
			version INTEGER NOT NULL DEFAULT 0,
			fence   INTEGER NOT NULL DEFAULT 0
		);
		CREATE TABLE orders (buyer INTEGER PRIMARY KEY);
		CREATE TABLE mishaps (at INTEGER NOT NULL, kind TEXT NOT NULL)`

	raiseFence     = `UPDATE items SET fence = @fence WHERE id = 1 AND fence <= @fence`
	sellPlain      = `UPDATE items SET stock = stock - 1 WHERE id = 1`
	sellFenced     = `UPDATE items SET stock = stock - 1, fence = @fence WHERE id = 1 AND fence <= @fence`
	sellVersioned  = `UPDATE items SET stock = stock - 1, version = version + 1 WHERE id = 1 AND version = @version`
	sellInStock    = `UPDATE items SET stock = stock - 1 WHERE id = 1 AND stock > 0`
	sellEverything = `UPDATE items SET stock = stock - 1, version = version + 1, fence = @fence
		WHERE id = 1 AND fence <= @fence AND version = @version AND stock > 0`
)

// A shop is the database, as one process sees it.
type shop struct{ db *sql.DB }

// An item is the row that all sellers want to change.
type item struct{ stock, version int64 }

// openShop opens the database in file. All statements of a process share one connection, so the goroutine that has it knows
// that the process is in no transaction.
func openShop(file string) (*shop, error) {
	db, err := sql.Open("sqlite", "file:"+file+
		"?_pragma=busy_timeout(30000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &shop{db}, nil
}

// stockUp fills an empty database for a sale. Each mishap happens to the caller that is about to sell when that many items are
// left.
func (s *shop) stockUp(ctx context.Context, items int64, mishaps []mishap) error {
	_, err := s.db.ExecContext(ctx, schema)
	if err == nil {
		_, err = s.db.ExecContext(ctx, `INSERT INTO items (id, stock) VALUES (1, ?)`, items)
	}
	for _, m := range mishaps {
		if err == nil {
			_, err = s.db.ExecContext(ctx, `INSERT INTO mishaps (at, kind) VALUES (?, ?)`, m.at, m.kind)
		}
	}
	return err
}

// enter raises the fence before a holder looks, and reports whether the database allowed it. From then on no earlier holder
// can sell the stock that this holder sees.
func (s *shop) enter(ctx context.Context, fence int64) (bool, error) {
	r, err := s.db.ExecContext(ctx, raiseFence, sql.Named("fence", fence))
	if err != nil {
		return false, err
	}
	n, err := r.RowsAffected()
	return n > 0, err
}

func (s *shop) look(ctx context.Context) (i item, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT stock, version FROM items WHERE id = 1`).Scan(&i.stock, &i.version)
	return i, err
}

// sell sells one item by the statement, and reports whether the database allowed it.
func (s *shop) sell(ctx context.Context, statement string, buyer int, seen item, fence int64) (bool, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() //nolint:errcheck // after a Commit there is nothing to roll back
	r, err := tx.ExecContext(ctx, statement, sql.Named("fence", fence), sql.Named("version", seen.version))
	if err != nil {
		return false, err
	}
	if n, err := r.RowsAffected(); n == 0 || err != nil {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (buyer) VALUES (?)`, buyer); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

// orders returns how many items were sold.
func (s *shop) orders(ctx context.Context) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT count(*) FROM orders`).Scan(&n)
	return n, err
}

// mishap returns the mishap of the caller, which has seen this stock, or "". Each mishap happens to only one caller.
func (s *shop) mishap(ctx context.Context, stock int64) (kind string, err error) {
	var due int
	err = s.db.QueryRowContext(ctx, `SELECT count(*) FROM mishaps WHERE at >= ?`, stock).Scan(&due)
	if due == 0 || err != nil {
		return "", err
	}
	err = s.db.QueryRowContext(ctx, `DELETE FROM mishaps WHERE rowid =
		(SELECT rowid FROM mishaps WHERE at >= ? ORDER BY at DESC LIMIT 1) RETURNING kind`, stock).Scan(&kind)
	if errors.Is(err, sql.ErrNoRows) { // another caller was quicker
		return "", nil
	}
	return kind, err
}

func (s *shop) close() { s.db.Close() }
