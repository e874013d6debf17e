// pgjdbc: see ../README.md. Run as one file: java -cp postgresql.jar Checks.java.

import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.largeobject.LargeObject;
import org.postgresql.largeobject.LargeObjectManager;

public final class Checks {
    static final int CONTENDERS = 6;
    static final int ROUNDS = 12;

    interface Work {
        void run(Connection connection) throws Exception;
    }

    interface Statements {
        void run() throws Exception;
    }

    // The driver does not read libpq's variables.
    static Connection connect(String... options) throws SQLException {
        var variables = System.getenv();
        var properties = new Properties();
        properties.setProperty("user", variables.get("PGUSER"));
        properties.setProperty("password", variables.get("PGPASSWORD"));
        for (int i = 0; i < options.length; i += 2) properties.setProperty(options[i], options[i + 1]);
        var place = variables.get("PGHOST") + ":" + variables.get("PGPORT") + "/" + variables.get("PGDATABASE");
        return DriverManager.getConnection("jdbc:postgresql://" + place, properties);
    }

    static void connected(Work work, String... options) throws Exception {
        try (var connection = connect(options)) {
            work.run(connection);
        }
    }

    static void holds(boolean condition, Object... what) {
        if (!condition) throw new AssertionError(Arrays.toString(what));
    }

    static void refused(String state, Statements statements) throws Exception {
        try {
            statements.run();
        } catch (SQLException error) {
            holds(state.equals(error.getSQLState()), state, error.getSQLState(), error.getMessage());
            return;
        }
        throw new AssertionError("expected " + state);
    }

    static void execute(Connection connection, String sql) throws SQLException {
        try (var statement = connection.createStatement()) {
            statement.execute(sql);
        }
    }

    static String one(Connection connection, String sql, Object... parameters) throws SQLException {
        try (var statement = connection.prepareStatement(sql)) {
            for (int i = 0; i < parameters.length; i++) statement.setObject(i + 1, parameters[i]);
            try (var rows = statement.executeQuery()) {
                rows.next();
                return rows.getString(1);
            }
        }
    }

    static void checkConnect() throws Exception {
        connected(connection -> {
            holds(one(connection, "show application_name").equals("jdbc checks"));
            holds(connection.getMetaData().getDatabaseMajorVersion() >= 13);
            holds(connection.isValid(10));
        }, "ApplicationName", "jdbc checks");
    }

    static void checkSimple() throws Exception {
        connected(connection -> {
            try (var statement = connection.createStatement()) {
                holds(statement.execute("select 6 * 7; select 'zwei'"));
                statement.getResultSet().next();
                holds(statement.getResultSet().getInt(1) == 42);
                holds(statement.getMoreResults());
                statement.getResultSet().next();
                holds(statement.getResultSet().getString(1).equals("zwei"));
            }
        }, "preferQueryMode", "simple");
        connected(connection -> {
            holds(one(connection, "select 6 * 7").equals("42"));
            // The metadata queries that tools open with.
            try (var tables = connection.getMetaData().getTables(null, "public", "hot", null)) {
                holds(tables.next());
            }
        });
    }

    static void checkPrepared() throws Exception {
        connected(connection -> {
            // After five executions the driver names the statement, and closes it after more than its cache keeps.
            var sql = "select ?::int + 1, ?::text, ?::bytea";
            for (int number = 0; number < 50; number++) {
                try (var statement = connection.prepareStatement(sql)) {
                    var bytes = new byte[] {0, (byte) 255, (byte) number};
                    statement.setInt(1, number);
                    statement.setString(2, null);
                    statement.setBytes(3, bytes);
                    try (var row = statement.executeQuery()) {
                        row.next();
                        holds(row.getInt(1) == number + 1 && row.getString(2) == null, number);
                        holds(Arrays.equals(row.getBytes(3), bytes), number);
                    }
                }
                holds(one(connection, "select ?::int + " + number % 20, 1).equals("" + (number % 20 + 1)));
            }
            // A portal read in pieces.
            connection.setAutoCommit(false);
            try (var statement = connection.prepareStatement("select generate_series(1, 100)")) {
                statement.setFetchSize(7);
                int total = 0;
                try (var rows = statement.executeQuery()) {
                    while (rows.next()) total += rows.getInt(1);
                }
                holds(total == 5050, total);
            }
            connection.commit();
        }, "preparedStatementCacheQueries", "8", "prepareThreshold", "3");
    }

    static void checkPipeline() throws Exception {
        connected(connection -> {
            execute(connection, "create temp table piped (number int check (number <> 13))");
            try (var statement = connection.prepareStatement("insert into piped values (?)")) {
                for (int number = 100; number < 2100; number++) {
                    statement.setInt(1, number);
                    statement.addBatch();
                }
                holds(Arrays.stream(statement.executeBatch()).sum() == 2000);
                for (int number : new int[] {1, 13, 2}) {
                    statement.setInt(1, number);
                    statement.addBatch();
                }
                try {
                    statement.executeBatch();
                    throw new AssertionError("13 was inserted");
                } catch (BatchUpdateException error) {
                    holds("23514".equals(error.getSQLState()), error.getSQLState());
                }
            }
            // Outside of a transaction a batch is one: nothing of it stays.
            holds(one(connection, "select count(*) from piped").equals("2000"));
            try (var statement = connection.prepareStatement(
                    "insert into piped values (?) returning number", Statement.RETURN_GENERATED_KEYS)) {
                for (int number = 20; number < 40; number++) {
                    statement.setInt(1, number);
                    statement.addBatch();
                }
                statement.executeBatch();
                try (var keys = statement.getGeneratedKeys()) {
                    for (int number = 20; number < 40; number++) {
                        holds(keys.next() && keys.getInt(1) == number, number);
                    }
                }
            }
        });
    }

    static void checkCopy() throws Exception {
        connected(connection -> {
            execute(connection, "create temp table copied (id int primary key, text text)");
            var copy = connection.unwrap(PGConnection.class).getCopyAPI();
            var rows = new StringBuilder();
            for (int number = 0; number < 20_000; number++) rows.append(number).append("\trow ").append(number).append('\n');
            holds(copy.copyIn("copy copied from stdin", new StringReader(rows.toString())) == 20_000);
            var out = new ByteArrayOutputStream();
            holds(copy.copyOut("copy (select * from copied order by id) to stdout", out) == 20_000);
            holds(out.toString(StandardCharsets.UTF_8).equals(rows.toString()));
            refused("23505", () -> copy.copyIn("copy copied from stdin", new StringReader(rows.toString())));
            var half = copy.copyIn("copy copied from stdin");
            half.writeToCopy("20000\tnot to be\n".getBytes(StandardCharsets.UTF_8), 0, 16);
            half.cancelCopy();
            holds(one(connection, "select count(*) from copied").equals("20000"));
        });
    }

    static void checkCancel() throws Exception {
        connected(connection -> {
            var timer = new Timer(true);
            for (int turn = 0; turn < 3; turn++) {
                try (var statement = connection.createStatement()) {
                    timer.schedule(new TimerTask() {
                        @Override
                        public void run() {
                            try {
                                statement.cancel();
                            } catch (SQLException error) {
                                throw new AssertionError(error);
                            }
                        }
                    }, 200);
                    refused("57014", () -> statement.execute("select pg_sleep(60)"));
                }
                holds(one(connection, "select 1").equals("1"));
            }
            try (var statement = connection.createStatement()) {
                statement.setQueryTimeout(1);
                refused("57014", () -> statement.execute("select pg_sleep(60)"));
            }
            holds(one(connection, "select 1").equals("1"));
        });
    }

    static void checkNotify() throws Exception {
        connected(listener -> connected(speaker -> {
            execute(listener, "listen jdbc_news");
            execute(speaker, "notify jdbc_news, 'first'");
            one(speaker, "select pg_notify('jdbc_news', ?)", "second");
            var heard = new ArrayList<String>();
            while (heard.size() < 2) {
                PGNotification[] news = listener.unwrap(PGConnection.class).getNotifications(20_000);
                holds(news != null && news.length > 0, "nothing in 20 s", heard);
                for (var notification : news) heard.add(notification.getParameter());
            }
            holds(heard.equals(List.of("first", "second")), heard);
        }));
    }

    static void checkRollback() throws Exception {
        connected(connection -> {
            execute(connection, "drop table if exists jdbc_kept; create table jdbc_kept (id int primary key)");
            connection.setAutoCommit(false);
            execute(connection, "insert into jdbc_kept values (1)");
            refused("22012", () -> one(connection, "select 1 / ?", 0));
            refused("25P02", () -> one(connection, "select 1"));
            connection.rollback();
            holds(one(connection, "select count(*) from jdbc_kept").equals("0"));
            execute(connection, "insert into jdbc_kept values (2)");
            var savepoint = connection.setSavepoint();
            refused("23505", () -> execute(connection, "insert into jdbc_kept values (2)"));
            connection.rollback(savepoint);
            execute(connection, "insert into jdbc_kept values (3)");
            connection.commit();
            connection.setAutoCommit(true);
            holds(one(connection, "select sum(id) from jdbc_kept").equals("5"));
            execute(connection, "drop table jdbc_kept");
        });
    }

    static void checkLarge() throws Exception {
        connected(connection -> {
            long total = 0;
            try (var statement = connection.createStatement();
                    ResultSet rows = statement.executeQuery("select repeat('x', 1000) from generate_series(1, 10000)")) {
                while (rows.next()) total += rows.getString(1).length();
            }
            holds(total == 10_000_000, total);
            holds(one(connection, "select repeat('y', 10000000)").length() == 10_000_000);
            holds(one(connection, "select length(?)", "z".repeat(5_000_000)).equals("5000000"));
        });
    }

    static void checkNotice() throws Exception {
        connected(connection -> {
            try (var statement = connection.createStatement()) {
                statement.execute("do $$ begin raise notice 'hear %', 'me'; end $$");
                holds(statement.getWarnings() != null && statement.getWarnings().getMessage().equals("hear me"));
            }
        });
    }

    // Large objects go by the message FunctionCall, which no other driver here sends.
    static void checkFunction() throws Exception {
        connected(connection -> {
            connection.setAutoCommit(false);
            LargeObjectManager objects = connection.unwrap(PGConnection.class).getLargeObjectAPI();
            long id = objects.createLO();
            var bytes = new byte[300_000];
            for (int i = 0; i < bytes.length; i++) bytes[i] = (byte) (i * 31);
            try (LargeObject object = objects.open(id, LargeObjectManager.WRITE)) {
                object.write(bytes);
            }
            try (LargeObject object = objects.open(id, LargeObjectManager.READ)) {
                holds(object.size() == bytes.length && Arrays.equals(object.read(bytes.length), bytes));
            }
            objects.delete(id);
            connection.commit();
        });
    }

    static void transfer(Connection connection) throws SQLException {
        for (int row = 1; row <= 3; row++) {
            long before = Long.parseLong(one(connection, "select low from hot where id = ? for update", row));
            long after = Long.parseLong(one(connection, "update hot set low = low + 1 where id = ? returning low", row));
            holds(after == before + 1, before, after);
        }
        connection.commit();
    }

    static Void contend() throws SQLException {
        try (var connection = connect()) {
            connection.setAutoCommit(false);
            for (int round = 0; round < ROUNDS;) {
                try {
                    transfer(connection);
                    round++;
                } catch (SQLException error) {
                    if (!List.of("40001", "40P01").contains(error.getSQLState())) throw error;
                    connection.rollback();
                }
            }
        }
        return null;
    }

    static long[] counts(Connection connection) throws SQLException {
        var counts = one(connection, "select string_agg(low::text, ',' order by id) from hot where id <= 3");
        return Arrays.stream(counts.split(",")).mapToLong(Long::parseLong).toArray();
    }

    static void checkContended() throws Exception {
        connected(connection -> {
            var before = counts(connection);
            ExecutorService threads = Executors.newFixedThreadPool(CONTENDERS);
            var work = new ArrayList<Callable<Void>>();
            for (int i = 0; i < CONTENDERS; i++) work.add(Checks::contend);
            for (Future<Void> contender : threads.invokeAll(work)) contender.get();
            threads.shutdown();
            var after = counts(connection);
            for (int row = 0; row < 3; row++) holds(after[row] - before[row] == CONTENDERS * ROUNDS, before, after);
        });
    }

    static void check(String name, Statements check) throws Exception {
        check.run();
        System.out.println("ok " + name);
    }

    public static void main(String[] arguments) throws Exception {
        check("connect", Checks::checkConnect);
        check("simple", Checks::checkSimple);
        check("prepared", Checks::checkPrepared);
        check("pipeline", Checks::checkPipeline);
        check("copy", Checks::checkCopy);
        check("cancel", Checks::checkCancel);
        check("notify", Checks::checkNotify);
        check("rollback", Checks::checkRollback);
        check("large", Checks::checkLarge);
        check("notice", Checks::checkNotice);
        check("function", Checks::checkFunction);
        check("contended", Checks::checkContended);
    }
}
