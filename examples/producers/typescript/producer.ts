// A producer in TypeScript, with pg. Each order is committed together with its event, or not at all.
//
//     DATABASE_URL=postgres://localhost/shop node producer.js function|insert MODE ORDER…

import { randomUUID } from "node:crypto";
import { Client, DatabaseError } from "pg";

const TENANT = "6f2c1f0e-7a35-4d5f-8f3a-0d7b1c2e3f40";

/** What a customer wants, and what the event about it says. */
interface Order {
  number: number;
  item: string;
  event: string; // the event's id, the consumers' idempotency key
  topic: string;
  dedupeKey: string | null; // the producer's own idempotency key; begins with the tenant
}

/** Which event there is, and whether it is new. */
interface Receipt {
  event?: string; // of one that is there already, only the function tells
  new: boolean;
}

type Enqueue = (db: Client, order: Order) => Promise<Receipt>;

class SoldOut extends Error {}

/** Writes an order and its event in one transaction: both are there afterwards, or neither. */
async function place(db: Client, enqueue: Enqueue, order: Order): Promise<Receipt> {
  await db.query("begin");
  try {
    const insert = "insert into typescript_orders (number, item) values ($1, $2) on conflict do nothing";
    await db.query(insert, [order.number, order.item]);
    const receipt = await enqueue(db, order);
    if (order.item === "unicorn") {
      throw new SoldOut(); // noticed late: the order goes, and its event with it
    }
    await db.query("commit");
    return receipt;
  } catch (failure) {
    await db.query("rollback");
    throw failure;
  }
}

async function byFunction(db: Client, order: Order): Promise<Receipt> {
  const call = `
    select event_id as event, new
    from orders_outbox_enqueue(
      topic => $1, payload => $2, id => $3, tenant_id => $4, dedupe_key => $5, headers => $6)`;
  const { rows } = await db.query<Receipt>(call, fields(order));
  return rows[0];
}

async function byInsert(db: Client, order: Order): Promise<Receipt> {
  const insert = `
    insert into orders_outbox (topic, payload, id, tenant_id, dedupe_key, headers)
    values ($1, $2, $3, $4, $5, $6)
    on conflict do nothing`;
  const { rowCount } = await db.query(insert, fields(order));
  return rowCount === 1 ? { event: order.event, new: true } : { new: false };
}

function fields(order: Order): unknown[] {
  const payload = { order: order.number, item: order.item };
  const headers = { source: "typescript" };
  return [order.topic, payload, order.event, TENANT, order.dedupeKey, headers];
}

/** What is wrong with a message; thrown on, if that is not what the database complains about. */
function refused(failure: unknown): string {
  if (failure instanceof DatabaseError) {
    const { code, constraint } = failure;
    if (code === "22023" || constraint?.startsWith("orders_outbox_topic")) return `topic ${code}`;
    if (constraint === "orders_outbox_tenant") return `tenant ${code}`;
  }
  throw failure;
}

/** The calls that show a mode: some do something wrong, some do it again. */
function attempts(mode: string, number: number): Order[] {
  const order = {
    number,
    item: '21" lamp',
    event: randomUUID(),
    topic: "shop.order.placed.v1",
    dedupeKey: `${TENANT}/typescript-${number}`,
  };
  switch (mode) {
    case "rollback":
      return [{ ...order, item: "unicorn" }];
    case "duplicate":
      return [order, { ...order, event: randomUUID() }, { ...order, dedupeKey: null }];
    case "race": // for the same event as the producers in other languages
      return [{ ...order, dedupeKey: `${TENANT}/race-${number}` }];
    case "bad-topic":
      return [{ ...order, topic: "Order placed" }];
    case "no-topic":
      return [{ ...order, topic: "" }];
    case "bad-tenant":
      return [{ ...order, dedupeKey: `another/typescript-${number}` }];
    default:
      return [order];
  }
}

async function outcome(db: Client, way: Enqueue, order: Order): Promise<string> {
  try {
    const receipt = await place(db, way, order);
    return `${receipt.new ? "new" : "known"} ${receipt.event ?? ""}`;
  } catch (failure) {
    return failure instanceof SoldOut ? "sold out" : `refused ${refused(failure)}`;
  }
}

const [way, mode, ...numbers] = process.argv.slice(2);
if (numbers.length === 0) {
  console.error("usage: producer function|insert MODE ORDER…");
  process.exit(2);
}
const db = new Client({ connectionString: process.env.DATABASE_URL });
await db.connect();
try {
  for (const number of numbers.map(Number)) {
    for (const order of attempts(mode, number)) {
      console.log(number, await outcome(db, way === "insert" ? byInsert : byFunction, order));
    }
  }
} finally {
  await db.end();
}
