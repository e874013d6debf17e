// Hibernate: a statement inspector tags the statements of a session. See ../README.md.

import java.util.logging.Level;
import java.util.logging.Logger;

import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;
import org.hibernate.resource.jdbc.spi.StatementInspector;

public final class HibernateClass {
    static SessionFactory open() {
        var variables = System.getenv();
        var place = variables.get("PGHOST") + ":" + variables.get("PGPORT") + "/" + variables.get("PGDATABASE");
        return new Configuration()
            .setProperty("hibernate.connection.url", "jdbc:postgresql://" + place)
            .setProperty("hibernate.connection.username", variables.get("PGUSER"))
            .setProperty("hibernate.connection.password", variables.get("PGPASSWORD"))
            .setProperty("hibernate.connection.pool_size", "1")
            .buildSessionFactory();
    }

    public static void main(String[] arguments) {
        Logger.getLogger("org.hibernate").setLevel(Level.SEVERE);
        StatementInspector nightly = sql -> sql + " /*class='nightly'*/";
        try (var factory = open()) {
            for (int i = 0; i < 2; i++) {
                try (var session = factory.withOptions().statementInspector(nightly).openSession()) {
                    var transaction = session.beginTransaction();
                    session.createNativeQuery("select count(*) from hot where id > :id", Long.class).setParameter("id", 0).getSingleResult();
                    session.createNativeQuery("select 1", Integer.class).getSingleResult();
                    transaction.commit();
                }
            }
            try (var session = factory.openSession()) {
                var transaction = session.beginTransaction();
                session.createNativeQuery("select 1", Integer.class).getSingleResult();
                transaction.commit();
            }
        }
        System.out.println("ok class");
    }
}
