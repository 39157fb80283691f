import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.List;
import java.util.Properties;
import java.util.UUID;
import org.postgresql.util.PSQLException;

/**
 * A producer in Java, with JDBC. Each order is committed together with its event, or not at all.
 *
 * <pre>DATABASE_URL=postgres://localhost/shop java -cp 'jars/*' Producer.java function|insert MODE ORDER…</pre>
 */
public class Producer {
    static final UUID TENANT = UUID.fromString("6f2c1f0e-7a35-4d5f-8f3a-0d7b1c2e3f40");

    /**
     * What a customer wants, and what the event about it says. The event's id is the consumers'
     * idempotency key; the dedupe key is our own, may be missing, and begins with the tenant.
     */
    record Order(long number, String item, UUID event, String topic, String dedupeKey) {}

    /** Which event there is, and whether it is new. Of one that is there already, only the function tells. */
    record Receipt(UUID event, boolean isNew) {}

    static class SoldOut extends Exception {}

    interface Enqueue {
        Receipt enqueue(Connection db, Order order) throws SQLException;
    }

    /** Writes an order and its event in one transaction: both are there afterwards, or neither. */
    static Receipt place(Connection db, Enqueue way, Order order) throws SQLException, SoldOut {
        db.setAutoCommit(false);
        try {
            String insert = "insert into java_orders (number, item) values (?, ?) on conflict do nothing";
            try (PreparedStatement statement = db.prepareStatement(insert)) {
                statement.setLong(1, order.number());
                statement.setString(2, order.item());
                statement.executeUpdate();
            }
            Receipt receipt = way.enqueue(db, order);
            if (order.item().equals("unicorn")) {
                throw new SoldOut(); // noticed late: the order goes, and its event with it
            }
            db.commit();
            return receipt;
        } catch (SQLException | SoldOut failure) {
            db.rollback();
            throw failure;
        }
    }

    static Receipt byFunction(Connection db, Order order) throws SQLException {
        String call =
                """
                select event_id, new
                from orders_outbox_enqueue(
                  topic => ?, payload => jsonb_build_object('order', ?::bigint, 'item', ?::text), id => ?,
                  tenant_id => ?, dedupe_key => ?, headers => '{"source": "java"}')
                """;
        try (PreparedStatement statement = db.prepareStatement(call)) {
            bind(statement, order);
            var row = statement.executeQuery();
            row.next();
            return new Receipt(row.getObject(1, UUID.class), row.getBoolean(2));
        }
    }

    static Receipt byInsert(Connection db, Order order) throws SQLException {
        String insert =
                """
                insert into orders_outbox (topic, payload, id, tenant_id, dedupe_key, headers)
                values (?, jsonb_build_object('order', ?::bigint, 'item', ?::text), ?, ?, ?, '{"source": "java"}')
                on conflict do nothing
                """;
        try (PreparedStatement statement = db.prepareStatement(insert)) {
            bind(statement, order);
            boolean isNew = statement.executeUpdate() == 1;
            return new Receipt(isNew ? order.event() : null, isNew);
        }
    }

    static void bind(PreparedStatement statement, Order order) throws SQLException {
        statement.setString(1, order.topic());
        statement.setLong(2, order.number());
        statement.setString(3, order.item());
        statement.setObject(4, order.event());
        statement.setObject(5, TENANT);
        statement.setString(6, order.dedupeKey());
    }

    /** What is wrong with a message; thrown on, if that is not what the database complains about. */
    static String refused(SQLException failure) throws SQLException {
        String state = failure.getSQLState();
        var details = failure instanceof PSQLException known ? known.getServerErrorMessage() : null;
        String constraint = details == null ? null : details.getConstraint();
        if ("22023".equals(state) || (constraint != null && constraint.startsWith("orders_outbox_topic"))) {
            return "topic " + state;
        }
        if ("orders_outbox_tenant".equals(constraint)) {
            return "tenant " + state;
        }
        throw failure;
    }

    /** The calls that show a mode: some do something wrong, some do it again. */
    static List<Order> attempts(String mode, long number) {
        String item = mode.equals("rollback") ? "unicorn" : "21\" lamp";
        String topic =
                switch (mode) {
                    case "bad-topic" -> "Order placed";
                    case "no-topic" -> "";
                    default -> "shop.order.placed.v1";
                };
        String key =
                switch (mode) {
                    case "race" -> TENANT + "/race-" + number; // the same event as in other languages
                    case "bad-tenant" -> "another/java-" + number;
                    default -> TENANT + "/java-" + number;
                };
        var order = new Order(number, item, UUID.randomUUID(), topic, key);
        if (!mode.equals("duplicate")) {
            return List.of(order);
        }
        var sameKey = new Order(number, item, UUID.randomUUID(), topic, key);
        var sameId = new Order(number, item, order.event(), topic, null);
        return List.of(order, sameKey, sameId);
    }

    static Connection connect(URI address) throws SQLException {
        var login = new Properties();
        String[] user = (address.getUserInfo() == null ? "postgres" : address.getUserInfo()).split(":", 2);
        login.setProperty("user", user[0]);
        if (user.length == 2) {
            login.setProperty("password", user[1]);
        }
        int port = address.getPort() == -1 ? 5432 : address.getPort();
        return DriverManager.getConnection(
                "jdbc:postgresql://" + address.getHost() + ":" + port + address.getPath(), login);
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length < 3) {
            System.err.println("usage: Producer function|insert MODE ORDER…");
            System.exit(2);
        }
        Enqueue way = arguments[0].equals("insert") ? Producer::byInsert : Producer::byFunction;
        try (Connection db = connect(URI.create(System.getenv("DATABASE_URL")))) {
            for (int i = 2; i < arguments.length; i++) {
                for (Order order : attempts(arguments[1], Long.parseLong(arguments[i]))) {
                    String outcome;
                    try {
                        Receipt receipt = place(db, way, order);
                        outcome = receipt.isNew() ? "new" : "known";
                        outcome += receipt.event() == null ? "" : " " + receipt.event();
                    } catch (SoldOut soldOut) {
                        outcome = "sold out";
                    } catch (SQLException failure) {
                        outcome = "refused " + refused(failure);
                    }
                    System.out.println(order.number() + " " + outcome);
                }
            }
        }
    }
}
