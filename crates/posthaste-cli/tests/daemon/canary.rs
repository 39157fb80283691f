//! B13: no secret of a destination is in anything that is printed, stored or exported, whatever the destination
//! does with it. Every secret is searched for in all of it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use posthaste_testkit::server::{Kafka, Nats, Options, OtlpReceiver, RabbitMq, Redis};
use serde_json::Value;

use crate::place::Place;
use crate::process::Daemon;

const PAYLOAD: &str = "canary-of-a-payload";
/// Each secret, and the file that holds it, if it is not in the configuration itself.
const SECRETS: [(&str, &str); 8] = [
    ("whsec_Y2FuYXJ5LW9mLWEtc2lnbmF0dXJlLTEyMzQ1", ""),
    ("whsec_Y2FuYXJ5LW9mLWFuLW9sZC1zaWduYXR1cmUtMTIz", "old"),
    ("canary/of/a/bearer", "bearer"),
    ("canary-of-kafka", "kafka"),
    ("canary-of-rabbitmq", ""),
    ("canary-of-nats", "nats"),
    ("canary-of-redis", ""),
    ("canary-of-a-collector", ""),
];
const SINKS: [&str; 5] = ["hook", "kafka", "mq", "nats", "redis"];

/// An endpoint that refuses every call, and repeats all that came with it in every way that it can.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for caller in listener.incoming() {
            let mut caller = caller.unwrap();
            caller
                .set_read_timeout(Some(Duration::from_millis(300)))
                .unwrap();
            let mut call = Vec::new();
            // Until nothing more comes.
            let _ = caller.read_to_end(&mut call);
            let call = String::from_utf8_lossy(&call);
            let token = call
                .split("Bearer ")
                .nth(1)
                .and_then(|rest| rest.lines().next());
            let token = token.unwrap_or_default();
            let in_json = serde_json::json!({ "you": call }).to_string();
            let in_php = format!("{token} {in_json}").replace('/', "\\/");
            let body = format!("{token} {in_php} {call} {in_json}");
            let _ = write!(
                caller,
                "HTTP/1.1 422 No\r\nx-you: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                call.replace(['\r', '\n'], " "),
                body.len()
            );
        }
    });
    port
}

/// A destination of each type, none of which lets us in.
struct World {
    place: Place,
    collector: OtlpReceiver,
    _nats: Nats,
    _redis: Redis,
}

impl World {
    fn new() -> Self {
        let nats = Options::new().setting("authorization", "{ user: relay, password: another }");
        let nats = Nats::start(nats).unwrap();
        let redis = Redis::start(Options::new().setting("requirepass", "another")).unwrap();
        let collector = OtlpReceiver::start().unwrap();
        let place = Place::sqlite();
        for (secret, file) in SECRETS.iter().filter(|(_, file)| !file.is_empty()) {
            std::fs::write(place.file(file), secret).unwrap();
        }
        let (mq, brokers) = (RabbitMq::shared(), Kafka::shared());
        let mq = mq.rsplit('@').next().unwrap();
        let brokers: Vec<&str> = brokers.split(',').collect();
        let [signature, _, _, _, rabbitmq, _, of_redis, of_collector] =
            SECRETS.map(|(secret, _)| secret);
        let route = |sink: &&str| {
            let topic = if *sink == "redis" { "" } else { sink };
            format!("[[outbox.route]]\ntopic = \"{topic}*\"\nsink = \"{sink}\"\n")
        };
        let routes: String = SINKS.iter().map(route).collect();
        place.write(&format!(
            "[log]\nlevel = \"trace\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\nrate_limit = 10000\n\
             [tracing]\notlp_endpoint = \"{collector}\"\nheaders = \"api-key={of_collector}\"\n\
             [database]\nurl = \"sqlite:shop.db\"\n\
             [[outbox]]\ntable = \"public.orders_outbox\"\n\
             [outbox.dead_letter]\ntopic = \"hook.dead-letters.v1\"\n\
             {routes}\
             [sink.hook]\ntype = \"http\"\nurl = \"http://127.0.0.1:{hook}/\"\nallow = [\"127.0.0.1\"]\n\
             secret = \"{signature}\"\nold_secret_file = \"old\"\nbearer_file = \"bearer\"\n\
             [sink.kafka]\ntype = \"kafka\"\nbrokers = {brokers:?}\ntimeout = \"3s\"\nsasl = \"plain\"\n\
             user = \"relay\"\npassword_file = \"kafka\"\n\
             [sink.mq]\ntype = \"rabbitmq\"\nurl = \"amqp://{mq}\"\nexchange = \"orders\"\n\
             user = \"guest\"\npassword = \"{rabbitmq}\"\n\
             [sink.nats]\ntype = \"nats\"\nservers = [\"{nats}\"]\nuser = \"relay\"\npassword_file = \"nats\"\n\
             [sink.redis]\ntype = \"redis\"\nurl = \"{redis}\"\npassword = \"{of_redis}\"\n",
            collector = collector.url(),
            hook = echo(),
            nats = nats.url(),
            redis = redis.url(),
        ));
        Self {
            place,
            collector,
            _nats: nats,
            _redis: redis,
        }
    }

    /// What commands print, on both streams, whether they fail or not.
    fn asked(&self) -> Vec<(String, String)> {
        let commands: [&[&str]; 14] = [
            &["config", "check"],
            &["config", "check", "--json"],
            &["config", "explain"],
            &["config", "explain", "--json"],
            &["config", "explain", "sink.hook.bearer"],
            &["doctor"],
            &["doctor", "--json"],
            &["sink", "check"],
            &["sink", "check", "--json"],
            &["status"],
            &["list", "--status", "any", "--json"],
            &["dead"],
            &["dead", "--json"],
            &["job", "list"],
        ];
        let ask = |command: &[&str]| {
            let answer = self.place.ask(command);
            (command.join(" "), format!("{}{}", answer.out, answer.err))
        };
        let mut told: Vec<_> = commands.iter().map(|command| ask(command)).collect();
        for event in self.place.events() {
            told.push(ask(&["show", event["id"].as_str().unwrap()]));
        }
        told
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let patience = Duration::from_secs(30);
    stream.set_read_timeout(Some(patience)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    let asked = Instant::now();
    while let Ok(size @ 1..) = stream.read(&mut piece) {
        answer.extend_from_slice(&piece[..size]);
        // The live stream does not end.
        if path.ends_with("/live") && asked.elapsed() > Duration::from_secs(2) {
            break;
        }
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 "), "{path}: {answer}");
    assert!(!answer.starts_with("HTTP/1.1 429"), "{path}: {answer}");
    answer
}

/// What the daemon answers to all that can be asked without changing anything.
fn answered(daemon: &Daemon, events: &[Value]) -> Vec<(String, String)> {
    let log = daemon.log();
    let line = log
        .lines()
        .find(|line| line.contains("answering operators"));
    let url = line.unwrap().split("url=").nth(1).unwrap();
    let address = url.trim_matches('"').split("://").nth(1).unwrap();
    let document = get(address, "/api/v1/openapi.json");
    let document = &document[document.find("\r\n\r\n").unwrap()..];
    let begin = document.find('{').unwrap();
    let end = document.rfind('}').unwrap();
    let document: Value = serde_json::from_str(&document[begin..=end]).unwrap();
    let mut told = Vec::new();
    for (path, verbs) in document["paths"].as_object().unwrap() {
        if verbs.get("get").is_none() {
            continue;
        }
        let path = path.replace("{outbox}", "public.orders_outbox");
        let times = if path.contains("{id}") {
            events.len()
        } else {
            1
        };
        for event in &events[..times] {
            let path = path.replace("{id}", event["id"].as_str().unwrap());
            let answer = get(address, &path);
            told.push((path, answer));
        }
    }
    assert!(told.len() > 15, "{}", told.len());
    told
}

#[test]
fn no_secret_is_in_anything_that_is_printed_stored_or_exported() {
    let world = World::new();
    let place = world.place.migrated();
    let payload = format!("{{\"name\":\"{PAYLOAD}\"}}");
    for sink in SINKS {
        let topic = format!("{sink}.order.placed.v1");
        place.ask(&["enqueue", &topic, &payload]).done();
    }
    let mut command = place.posthaste(&["run"]);
    command.env("OTEL_BSP_SCHEDULE_DELAY", "50");
    let daemon = Daemon::start(command);
    daemon.says("answering operators");
    // The letter of the webhook's event is refused as well.
    daemon.until("the webhook's are dead", || place.count("dead") == 2);
    for sink in &SINKS[1..] {
        daemon.until(&format!("{sink} is down"), || {
            let log = daemon.log();
            let mut lines = log.lines();
            lines.any(|line| line.contains("the destination is down") && line.contains(sink))
        });
    }
    let spans = || world.collector.spans().unwrap();
    daemon.until("spans came", || spans().contains("hook.order.placed.v1"));
    let mut told = answered(&daemon, &place.events());
    told.extend(world.asked());
    told.push(("spans".to_owned(), spans()));
    let ended = daemon.stop();
    told.push(("run".to_owned(), format!("{}{}", ended.out, ended.err)));
    // What is not about contents holds none either.
    let of_contents = |what: &str| what.ends_with("/content") || what.starts_with("show");
    for (what, text) in told.iter().filter(|(what, _)| !of_contents(what)) {
        assert!(!text.contains(PAYLOAD), "{what} tells a payload: {text}");
    }
    for file in ["shop.db", "shop.db-wal"] {
        let stored = std::fs::read(place.file(file)).unwrap_or_default();
        told.push((
            file.to_owned(),
            String::from_utf8_lossy(&stored).into_owned(),
        ));
    }
    for (what, text) in &told {
        for (secret, _) in SECRETS {
            let bare = secret.trim_start_matches("whsec_");
            for secret in [bare.to_owned(), bare.replace('/', "\\/")] {
                assert!(!text.contains(&secret), "{what} tells {secret}: {text}");
            }
        }
    }
    // Something was looked at: the webhook's answer is kept, and repeats what it was sent.
    let dead = told.iter().find(|(what, _)| what == "dead --json").unwrap();
    assert!(
        dead.1.contains("422") && dead.1.contains("***"),
        "{}",
        dead.1
    );
}
