// Go's pgx: see ../README.md.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	contenders = 6
	rounds     = 12
)

var background = context.Background()

// must ends the program with what failed.
func must(err error) {
	if err != nil {
		_ = log.Output(2, err.Error())
		os.Exit(1)
	}
}

func holds(condition bool, format string, values ...any) {
	if !condition {
		_ = log.Output(2, fmt.Sprintf(format, values...))
		os.Exit(1)
	}
}

func sqlState(err error) string {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return fmt.Sprint(err)
}

func refused(state string, err error) {
	holds(sqlState(err) == state, "expected %s, got %v", state, err)
}

// connect takes where to from libpq's variables.
func connect(change ...func(*pgx.ConnConfig)) *pgx.Conn {
	config, err := pgx.ParseConfig("")
	must(err)
	for _, change := range change {
		change(config)
	}
	connection, err := pgx.ConnectConfig(background, config)
	must(err)
	return connection
}

func one[T any](connection interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, sql string, parameters ...any) T {
	var value T
	must(connection.QueryRow(background, sql, parameters...).Scan(&value))
	return value
}

func execute(connection *pgx.Conn, sql string, parameters ...any) {
	_, err := connection.Exec(background, sql, parameters...)
	must(err)
}

func checkConnect() {
	connection := connect(func(config *pgx.ConnConfig) { config.RuntimeParams["application_name"] = "pgx checks" })
	defer connection.Close(background)
	holds(one[string](connection, "show application_name") == "pgx checks", "application_name")
	holds(connection.PgConn().ParameterStatus("server_version") != "", "server_version")
}

func checkSimple() {
	connection := connect()
	defer connection.Close(background)
	results, err := connection.PgConn().Exec(background, "select 1; select 'zwei'; select null").ReadAll()
	must(err)
	holds(len(results) == 3 && string(results[1].Rows[0][0]) == "zwei", "%v", results)
	row := connection.QueryRow(background, "select $1::int * 7", pgx.QueryExecModeSimpleProtocol, 6)
	var product int
	must(row.Scan(&product))
	holds(product == 42, "%d", product)
	execute(connection, "")
}

func checkPrepared() {
	connection := connect(func(config *pgx.ConnConfig) { config.StatementCacheCapacity = 8 })
	defer connection.Close(background)
	_, err := connection.Prepare(background, "named", "select $1::int + 1, $2::text, $3::bytea, $4::int[]")
	must(err)
	for number := 0; number < 50; number++ {
		var sum int
		var text *string
		var data []byte
		var list []int
		given := []byte{0, 255, byte(number)}
		must(connection.QueryRow(background, "named", number, nil, given, []int{number, 2}).Scan(&sum, &text, &data, &list))
		holds(sum == number+1 && text == nil && bytes.Equal(data, given) && list[0] == number, "%d", number)
	}
	// More than the cache keeps: old ones are closed on the way.
	for number := 0; number < 50; number++ {
		sql := fmt.Sprintf("select $1::int + %d", number%20)
		holds(one[int](connection, sql, 1) == number%20+1, "%s", sql)
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe} {
		holds(one[int](connection, "select $1::int - 1", mode, 8) == 7, "%v", mode)
	}
	must(connection.Deallocate(background, "named"))
	must(connection.DeallocateAll(background))
}

func checkPipeline() {
	connection := connect()
	defer connection.Close(background)
	execute(connection, "create temp table piped (number int check (number <> 13))")
	batch := &pgx.Batch{}
	for number := 0; number < 200; number++ {
		batch.Queue("select $1::int", number)
	}
	results := connection.SendBatch(background, batch)
	for number := 0; number < 200; number++ {
		var got int
		must(results.QueryRow().Scan(&got))
		holds(got == number, "%d for %d", got, number)
	}
	must(results.Close())
	// One batch is one transaction: all of it, or nothing.
	batch = &pgx.Batch{}
	for _, number := range []int{100, 13, 101} {
		batch.Queue("insert into piped values ($1)", number)
	}
	refused("23514", connection.SendBatch(background, batch).Close())
	holds(one[int](connection, "select count(*) from piped") == 0, "half a batch")

	// The driver's pipeline: Sync where the program says so, answers whenever it asks.
	pipeline := connection.PgConn().StartPipeline(background)
	for _, number := range []string{"100", "13", "101"} {
		pipeline.SendQueryParams("insert into piped values ($1)", [][]byte{[]byte(number)}, nil, nil, nil)
		if number != "13" {
			must(pipeline.Sync())
		}
	}
	must(pipeline.Flush())
	var states []string
	for {
		result, err := pipeline.GetResults()
		if result == nil && err == nil {
			break
		}
		if err == nil {
			if reader, is := result.(*pgconn.ResultReader); is {
				_, err = reader.Close()
			}
		}
		if err != nil {
			states = append(states, sqlState(err))
		}
	}
	must(pipeline.Close())
	holds(len(states) == 1 && states[0] == "23514", "%v", states)
	holds(one[int](connection, "select sum(number) from piped") == 100, "after the error nothing to the next Sync")
}

func checkCopy() {
	connection := connect()
	defer connection.Close(background)
	execute(connection, "create temp table copied (id int primary key, text text)")
	rows := make([][]any, 20_000)
	for number := range rows {
		rows[number] = []any{number, fmt.Sprint("row ", number)}
	}
	columns := []string{"id", "text"}
	count, err := connection.CopyFrom(background, pgx.Identifier{"copied"}, columns, pgx.CopyFromRows(rows))
	must(err)
	holds(count == 20_000, "%d", count)
	var out bytes.Buffer
	_, err = connection.PgConn().CopyTo(background, &out, "copy (select * from copied order by id) to stdout")
	must(err)
	holds(strings.HasSuffix(out.String(), "19999\trow 19999\n") && strings.Count(out.String(), "\n") == 20_000, "out")
	_, err = connection.CopyFrom(background, pgx.Identifier{"copied"}, columns, pgx.CopyFromRows(rows))
	refused("23505", err)
	broken := pgx.CopyFromFunc(func() ([]any, error) { return nil, errors.New("the client gives up") })
	_, err = connection.CopyFrom(background, pgx.Identifier{"copied"}, columns, broken)
	holds(err != nil, "a copy that its client gave up went well")
	holds(one[int](connection, "select count(*) from copied") == 20_000, "rows of a refused copy")
}

func checkCancel() {
	connection := connect()
	defer connection.Close(background)
	for turn := 0; turn < 3; turn++ {
		time.AfterFunc(200*time.Millisecond, func() { must(connection.PgConn().CancelRequest(background)) })
		_, err := connection.Exec(background, "select pg_sleep(60)")
		refused("57014", err)
		holds(one[int](connection, "select 1") == 1, "after a cancel")
	}
	// A context that ends closes the connection in the middle of a statement; a new one is served.
	short, done := context.WithTimeout(background, 200*time.Millisecond)
	defer done()
	_, err := connect().Exec(short, "select pg_sleep(60)")
	holds(err != nil && short.Err() != nil, "%v", err)
	holds(one[int](connection, "select 1") == 1, "the connection beside")
}

func checkNotify() {
	listener, speaker := connect(), connect()
	defer listener.Close(background)
	defer speaker.Close(background)
	execute(listener, "listen pgx_news")
	execute(speaker, "notify pgx_news, 'first'")
	execute(speaker, "select pg_notify('pgx_news', $1)", "second")
	soon, done := context.WithTimeout(background, 20*time.Second)
	defer done()
	for _, expected := range []string{"first", "second"} {
		notification, err := listener.WaitForNotification(soon)
		must(err)
		holds(notification.Payload == expected, "%v", notification)
	}
}

func checkRollback() {
	connection := connect()
	defer connection.Close(background)
	execute(connection, "drop table if exists pgx_kept")
	execute(connection, "create table pgx_kept (id int primary key)")
	transaction, err := connection.Begin(background)
	must(err)
	_, err = transaction.Exec(background, "insert into pgx_kept values ($1)", 1)
	must(err)
	_, err = transaction.Exec(background, "select 1 / $1::int", 0)
	refused("22012", err)
	_, err = transaction.Exec(background, "select 1")
	refused("25P02", err)
	must(transaction.Rollback(background))
	holds(one[int](connection, "select count(*) from pgx_kept") == 0, "rolled back")
	must(pgx.BeginFunc(background, connection, func(transaction pgx.Tx) error {
		_, err := transaction.Exec(background, "insert into pgx_kept values (2)")
		must(err)
		refused("23505", pgx.BeginFunc(background, transaction, func(savepoint pgx.Tx) error {
			_, err := savepoint.Exec(background, "insert into pgx_kept values (2)")
			return err
		}))
		_, err = transaction.Exec(background, "insert into pgx_kept values (3)")
		return err
	}))
	holds(one[int](connection, "select sum(id) from pgx_kept") == 5, "kept")
	execute(connection, "drop table pgx_kept")
}

func checkLarge() {
	connection := connect()
	defer connection.Close(background)
	rows, err := connection.Query(background, "select repeat('x', 1000) from generate_series(1, 10000)")
	must(err)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(err)
	holds(len(texts) == 10_000 && len(texts[9_999]) == 1000, "rows")
	holds(len(one[string](connection, "select repeat('y', 10000000)")) == 10_000_000, "field")
	holds(one[int](connection, "select length($1)", strings.Repeat("z", 5_000_000)) == 5_000_000, "parameter")
}

func checkNotice() {
	var heard []string
	connection := connect(func(config *pgx.ConnConfig) {
		config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { heard = append(heard, notice.Message) }
	})
	defer connection.Close(background)
	execute(connection, "do $$ begin raise notice 'hear %', 'me'; end $$")
	holds(len(heard) == 1 && heard[0] == "hear me", "%v", heard)
}

func transfer(transaction pgx.Tx) error {
	for row := 1; row <= 3; row++ {
		var before, after int
		err := transaction.QueryRow(background, "select low from hot where id = $1 for update", row).Scan(&before)
		if err != nil {
			return err
		}
		err = transaction.QueryRow(background, "update hot set low = low + 1 where id = $1 returning low", row).Scan(&after)
		if err != nil {
			return err
		}
		holds(after == before+1, "%d and then %d", before, after)
	}
	return nil
}

func contend() {
	connection := connect()
	defer connection.Close(background)
	for round := 0; round < rounds; {
		err := pgx.BeginFunc(background, connection, transfer)
		if state := sqlState(err); err != nil && (state == "40001" || state == "40P01") {
			continue
		}
		must(err)
		round++
	}
}

func checkContended() {
	connection := connect()
	defer connection.Close(background)
	counts := "select array_agg(low order by id) from hot where id <= 3"
	before := one[[]int](connection, counts)
	var all sync.WaitGroup
	for range make([]struct{}, contenders) {
		all.Add(1)
		go func() {
			defer all.Done()
			contend()
		}()
	}
	all.Wait()
	for row, after := range one[[]int](connection, counts) {
		holds(after-before[row] == contenders*rounds, "row %d: %d, %d", row+1, before[row], after)
	}
}

func main() {
	log.SetFlags(log.Lshortfile)
	for _, check := range []struct {
		name string
		run  func()
	}{
		{"connect", checkConnect},
		{"simple", checkSimple},
		{"prepared", checkPrepared},
		{"pipeline", checkPipeline},
		{"copy", checkCopy},
		{"cancel", checkCancel},
		{"notify", checkNotify},
		{"rollback", checkRollback},
		{"large", checkLarge},
		{"notice", checkNotice},
		{"contended", checkContended},
	} {
		check.run()
		fmt.Println("ok", check.name)
	}
}
