// A producer in Go, with pgx. Each order is committed together with its event, or not at all.
//
//	DATABASE_URL=postgres://localhost/shop go run . function|insert MODE ORDER…
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const tenant = "6f2c1f0e-7a35-4d5f-8f3a-0d7b1c2e3f40"

// Order is what a customer wants, and what the event about it says.
type Order struct {
	Number    int64
	Item      string
	Event     string // the event's id, the consumers' idempotency key
	Topic     string
	DedupeKey *string // the producer's own idempotency key; begins with the tenant
}

// Receipt says which event there is, and whether it is new.
type Receipt struct {
	Event string // of one that is there already, only the function tells
	New   bool
}

var errSoldOut = errors.New("sold out")

// place writes an order and its event in one transaction: both are there afterwards, or neither.
func place(ctx context.Context, db *pgx.Conn, enqueue enqueue, order Order) (receipt Receipt, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		const insert = "insert into go_orders (number, item) values ($1, $2) on conflict do nothing"
		if _, err := tx.Exec(ctx, insert, order.Number, order.Item); err != nil {
			return err
		}
		if receipt, err = enqueue(ctx, tx, order); err != nil {
			return err
		}
		if order.Item == "unicorn" {
			return errSoldOut // noticed late: the order goes, and its event with it
		}
		return nil
	})
	return receipt, err
}

type enqueue func(ctx context.Context, tx pgx.Tx, order Order) (Receipt, error)

func byFunction(ctx context.Context, tx pgx.Tx, order Order) (receipt Receipt, err error) {
	row := tx.QueryRow(ctx, `
		select event_id, new
		from orders_outbox_enqueue(
			topic => $1, payload => $2, id => $3, tenant_id => $4, dedupe_key => $5, headers => $6)`,
		order.Topic, order.payload(), order.Event, tenant, order.DedupeKey, headers)
	err = row.Scan(&receipt.Event, &receipt.New)
	return receipt, err
}

func byInsert(ctx context.Context, tx pgx.Tx, order Order) (receipt Receipt, err error) {
	inserted, err := tx.Exec(ctx, `
		insert into orders_outbox (topic, payload, id, tenant_id, dedupe_key, headers)
		values ($1, $2, $3, $4, $5, $6)
		on conflict do nothing`,
		order.Topic, order.payload(), order.Event, tenant, order.DedupeKey, headers)
	if inserted.RowsAffected() == 1 {
		receipt = Receipt{order.Event, true}
	}
	return receipt, err
}

var headers = map[string]string{"source": "go"}

func (order Order) payload() map[string]any {
	return map[string]any{"order": order.Number, "item": order.Item}
}

// refused says what is wrong with a message, if that is what the database complains about.
func refused(err error) string {
	var failure *pgconn.PgError
	switch {
	case !errors.As(err, &failure):
		return ""
	case failure.Code == "22023" || strings.HasPrefix(failure.ConstraintName, "orders_outbox_topic"):
		return "topic " + failure.Code
	case failure.ConstraintName == "orders_outbox_tenant":
		return "tenant " + failure.Code
	default:
		return ""
	}
}

// attempts are the calls that show a mode: some do something wrong, some do it again.
func attempts(mode string, number int64) []Order {
	key := fmt.Sprintf("%s/go-%d", tenant, number)
	order := Order{number, `21" lamp`, uuid.NewString(), "shop.order.placed.v1", &key}
	switch mode {
	case "rollback":
		order.Item = "unicorn"
	case "duplicate":
		sameKey, sameID := order, order
		sameKey.Event = uuid.NewString()
		sameID.DedupeKey = nil
		return []Order{order, sameKey, sameID}
	case "race": // for the same event as the producers in other languages
		key = fmt.Sprintf("%s/race-%d", tenant, number)
	case "bad-topic":
		order.Topic = "Order placed"
	case "no-topic":
		order.Topic = ""
	case "bad-tenant":
		key = fmt.Sprintf("another/go-%d", number)
	}
	return []Order{order}
}

func main() {
	if len(os.Args) < 4 {
		log.Fatal("usage: producer function|insert MODE ORDER…")
	}
	way, mode := byFunction, os.Args[2]
	if os.Args[1] == "insert" {
		way = byInsert
	}
	ctx := context.Background()
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close(ctx)
	for _, argument := range os.Args[3:] {
		number, err := strconv.ParseInt(argument, 10, 64)
		if err != nil {
			log.Fatal(err)
		}
		for _, order := range attempts(mode, number) {
			switch receipt, err := place(ctx, db, way, order); {
			case err == nil && receipt.New:
				fmt.Println(number, "new", receipt.Event)
			case err == nil:
				fmt.Println(number, "known", receipt.Event)
			case errors.Is(err, errSoldOut):
				fmt.Println(number, "sold out")
			case refused(err) != "":
				fmt.Println(number, "refused", refused(err))
			default:
				log.Fatal(err)
			}
		}
	}
}
