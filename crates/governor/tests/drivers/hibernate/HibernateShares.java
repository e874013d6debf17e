// Hibernate: the sample transactions. See ../README.md.

import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.function.Consumer;
import java.util.logging.Level;
import java.util.logging.Logger;

import jakarta.persistence.CascadeType;
import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.LockModeType;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OneToMany;
import jakarta.persistence.SequenceGenerator;
import jakarta.persistence.Table;
import org.hibernate.Session;
import org.hibernate.annotations.CreationTimestamp;
import org.hibernate.annotations.UpdateTimestamp;
import org.hibernate.boot.registry.BootstrapServiceRegistryBuilder;
import org.hibernate.cfg.Configuration;

public final class HibernateShares {
    @Entity
    @Table(name = "customers")
    public static class Customer {
        @Id public Long id;
        public long balance;
        @UpdateTimestamp public java.time.OffsetDateTime updated_at;
    }

    @Entity
    @Table(name = "orders")
    public static class Order {
        @Id
        @GeneratedValue(strategy = GenerationType.IDENTITY)
        public Long id;
        public long customer_id;
        public long total;
        @CreationTimestamp public java.time.OffsetDateTime created_at;
        @OneToMany(mappedBy = "order", cascade = CascadeType.ALL) public List<Item> items = new ArrayList<>();
    }

    @Entity
    @Table(name = "items")
    public static class Item {
        @Id
        @GeneratedValue(strategy = GenerationType.SEQUENCE, generator = "items")
        @SequenceGenerator(name = "items", sequenceName = "items_hibernate", allocationSize = 50)
        public Long id;
        @ManyToOne public Order order;
        public String sku;
        public int quantity;

        static Item of(Order order, String sku, int quantity) {
            var item = new Item();
            item.order = order;
            item.sku = sku;
            item.quantity = quantity;
            return item;
        }
    }

    static void add(Session session, long amount) {
        session.createMutationQuery("update HibernateShares$Customer set balance = balance + :amount where id = 1")
            .setParameter("amount", amount).executeUpdate();
    }

    static Order order(long total) {
        var order = new Order();
        order.customer_id = 1;
        order.total = total;
        return order;
    }

    static final Map<String, Consumer<Session>> TRANSACTIONS = Map.of(
        "create", session -> {
            var order = order(30);
            for (var sku : List.of("apple", "pear")) order.items.add(Item.of(order, sku, 2));
            session.persist(order);
            session.flush();
            add(session, -30);
        },
        "log", session -> {
            add(session, 10);
            session.persist(order(10));
            session.flush();
        },
        "change", session -> {
            session.find(Customer.class, 1L).balance += 5;
            session.flush();
        },
        "lock", session -> {
            session.find(Customer.class, 1L, LockModeType.PESSIMISTIC_WRITE).balance += 5;
            session.flush();
        },
        "increment", session -> add(session, 1),
        "bulk", session -> {
            add(session, 1);
            var order = session.getReference(Order.class, 1L);
            for (int number = 0; number < 20; number++) session.persist(Item.of(order, "sku " + number, 1));
            session.flush();
        });

    static String state(Throwable error) {
        for (var cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof SQLException of && of.getSQLState() != null) return of.getSQLState();
        }
        return error.toString();
    }

    public static void main(String[] arguments) {
        Logger.getLogger("org.hibernate").setLevel(Level.SEVERE);
        var variables = System.getenv();
        var place = variables.get("PGHOST") + ":" + variables.get("PGPORT") + "/" + variables.get("PGDATABASE");
        // A program that is run from its source has a class loader of its own.
        var registry = new BootstrapServiceRegistryBuilder().applyClassLoader(HibernateShares.class.getClassLoader()).build();
        var configuration = new Configuration(registry)
            .setProperty("hibernate.connection.url", "jdbc:postgresql://" + place)
            .setProperty("hibernate.connection.username", variables.get("PGUSER"))
            .setProperty("hibernate.connection.password", variables.get("PGPASSWORD"))
            .setProperty("hibernate.connection.pool_size", "1")
            .setProperty("hibernate.jdbc.batch_size", "20")
            .addAnnotatedClass(Customer.class).addAnnotatedClass(Order.class).addAnnotatedClass(Item.class);
        try (var factory = configuration.buildSessionFactory(); var lines = new Scanner(System.in)) {
            while (lines.hasNextLine()) {
                var name = lines.nextLine().strip();
                try {
                    factory.inTransaction(session -> {
                        TRANSACTIONS.get(name).accept(session);
                        session.createNativeMutationQuery("update gate set passed = passed + 1 where id = 1").executeUpdate();
                    });
                    System.out.println("ok");
                } catch (RuntimeException error) {
                    System.out.println(state(error));
                }
            }
        }
    }
}
