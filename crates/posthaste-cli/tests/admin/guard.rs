//! Whom the daemon lets in, and from where: hosts, sites, sessions, limits.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::Told;
use crate::scene::{STDOUT, Scene};

fn refused(scene: &Scene) -> String {
    let output = scene.command(&["run"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn another_address_than_this_machines_needs_tokens() {
    let scene = Scene::sqlite();
    let configure = |admin: &str| {
        scene.configure(admin, "", STDOUT);
        let text = std::fs::read_to_string(scene.file("posthaste.toml")).unwrap();
        let open = text.replace("127.0.0.1:0", "0.0.0.0:0");
        std::fs::write(scene.file("posthaste.toml"), open).unwrap();
    };
    configure("without_tokens = \"operator\"");
    let why = refused(&scene);
    assert!(why.contains("can be reached from other machines"), "{why}");
    assert!(why.contains("posthaste token create"), "{why}");
    configure("tokens_file = \"tokens\"");
    let daemon = scene.begin();
    let port = daemon.address.split(':').nth(1).unwrap();
    let ask = crate::client::Ask::new(&format!("127.0.0.1:{port}"), "GET", "/livez");
    assert_eq!(ask.send().status, 200);
}

#[test]
fn an_address_that_was_chosen_must_be_free_and_the_usual_one_need_not() {
    let scene = Scene::sqlite();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let text = std::fs::read_to_string(scene.file("posthaste.toml")).unwrap();
    let chosen = text.replace("127.0.0.1:0", &taken.local_addr().unwrap().to_string());
    std::fs::write(scene.file("posthaste.toml"), chosen).unwrap();
    let output = scene.command(&["run"]).output().unwrap();
    let why = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(why.contains("another process listens there"), "{why}");
    assert!(why.contains("Set listen under [admin]"), "{why}");
}

#[test]
fn who_connects_and_says_nothing_keeps_nobody_out() {
    let scene = Scene::sqlite();
    let daemon = scene.run();
    let mut silent: Vec<TcpStream> = (0..300)
        .map(|_| TcpStream::connect(&daemon.address).unwrap())
        .collect();
    // Half of a greeting is no more than none.
    let greeted = silent[0].write_all(b"PRI * HTTP/2.0\r\n\r\nSM");
    greeted.unwrap();
    let probe = daemon.ask("GET", "/livez");
    let told = probe.over(from("127.0.0.2", &daemon.address));
    assert_eq!(told.status, 200, "others are not kept waiting");
    for mut stream in silent {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
    assert_eq!(probe.send().status, 200, "and the address may come back");
}

#[test]
fn who_asks_and_does_not_read_is_let_go() {
    let scene = Scene::sqlite();
    let daemon = scene.run();
    let ask = daemon.ask("GET", "/page/app.js").text();
    let again = ask.replace("Connection: close\r\n", "");
    let mut stream = TcpStream::connect(&daemon.address).unwrap();
    let second = Some(Duration::from_secs(1));
    stream.set_write_timeout(second).unwrap();
    let began = Instant::now();
    // Until nothing more is taken, and then until nobody is there.
    let gone = loop {
        match stream.write_all(again.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => break error,
            _ => assert!(
                began.elapsed() < Duration::from_secs(90),
                "it is waited for"
            ),
        }
    };
    let kinds = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    assert!(kinds.contains(&gone.kind()), "{gone}");
    assert!(
        began.elapsed() > Duration::from_secs(20),
        "too early: {gone}"
    );
}

/// A connection from another address of this machine.
fn from(own: &str, address: &str) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{own}:0").parse().unwrap()).unwrap();
        let stream = socket.connect(address.parse().unwrap()).await.unwrap();
        stream.into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let scene = Scene::sqlite();
    let daemon = scene.run();
    let ask = daemon.ask("POST", &daemon.path("pause"));
    let ask = ask.by(&scene.tokens[2]).json(&json!({"why": "to try it"}));
    let text = ask.text();
    let (head, _) = text.split_once("\r\n\r\n").unwrap();
    let mut stream = TcpStream::connect(&daemon.address).unwrap();
    stream
        .write_all(format!("{head}\r\n\r\n{{").as_bytes())
        .unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    Told::read(&answer).fails(408, "admin.late");
}

#[test]
fn only_hosts_of_ours_are_answered() {
    let scene = Scene::sqlite();
    let admin = "tokens_file = \"tokens\"\nallowed_hosts = [\"ops.example\"]";
    scene.configure(admin, "", STDOUT);
    let daemon = scene.run();
    let called = |host: &str| {
        let ask = daemon.ask("GET", "/api/v1/overview").by(&scene.tokens[2]);
        ask.with("Host", host).send()
    };
    for ours in ["localhost:7411", "127.0.0.1", "[::1]:80", "ops.example"] {
        assert_eq!(called(ours).status, 200, "{ours}");
    }
    for other in [
        "evil.example",
        "127.0.0.1.evil.example",
        "ops.example.evil.example",
    ] {
        called(other).fails(421, "admin.host");
    }
    // Not even the probes, nor what is not there.
    let probe = daemon.ask("GET", "/livez").with("Host", "evil.example");
    probe.send().fails(421, "admin.host");
}

#[test]
fn a_change_from_another_site_is_refused_whoever_is_signed_in() {
    let scene = Scene::sqlite();
    let daemon = scene.run();
    let cookie = signed_in(
        &daemon
            .ask("POST", "/login")
            .form(&format!("token={}", scene.tokens[2]))
            .send(),
    );
    let host = daemon.address.clone();
    let origin = format!("http://{host}");
    let pause = |headers: &[(&str, &str)]| {
        let ask = daemon.ask("POST", &daemon.path("pause"));
        let ask = ask
            .json(&json!({"why": "to try it"}))
            .with("Cookie", &cookie);
        headers
            .iter()
            .fold(ask, |ask, (name, value)| ask.with(name, value))
            .send()
    };
    for headers in [
        &[
            ("Sec-Fetch-Site", "same-origin"),
            ("Origin", origin.as_str()),
        ][..],
        &[("Sec-Fetch-Site", "same-origin")],
        &[("Origin", &origin)],
    ] {
        assert_eq!(pause(headers).status, 200, "{headers:?}");
    }
    for headers in [
        &[][..],
        &[
            ("Sec-Fetch-Site", "cross-site"),
            ("Origin", "https://evil.example"),
        ],
        &[("Sec-Fetch-Site", "same-site"), ("Origin", origin.as_str())],
        &[
            ("Sec-Fetch-Site", "same-origin"),
            ("Origin", "https://evil.example"),
        ],
        &[("Sec-Fetch-Site", "none")],
        &[("Origin", "https://evil.example")],
        &[("Origin", "null")],
        &[("Origin", &format!("https://{host}"))],
    ] {
        pause(headers).fails(403, "admin.cross_site");
    }
    // A program with a token says nothing about sites; a page that has one still does.
    let by_token = |name: &str, value: &str| {
        let ask = daemon
            .ask("POST", &daemon.path("resume"))
            .by(&scene.tokens[2]);
        ask.json(&json!({"why": "to try it"}))
            .with(name, value)
            .send()
    };
    assert_eq!(by_token("User-Agent", "curl").status, 200);
    by_token("Sec-Fetch-Site", "cross-site").fails(403, "admin.cross_site");
    // No form of another page can be sent to it, either.
    let form = daemon
        .ask("POST", &daemon.path("pause"))
        .by(&scene.tokens[2])
        .form("why=x");
    form.send().fails(415, "admin.media_type");
}

#[test]
fn something_that_speaks_tls_before_it_is_named_with_its_address() {
    let scene = Scene::sqlite();
    let hosts = r#"["https://ops.example", "https://ops.example.net:8443", "plain.example"]"#;
    let admin = format!("tokens_file = \"tokens\"\nallowed_hosts = {hosts}");
    scene.configure(&admin, "", STDOUT);
    let daemon = scene.run();
    let login = |host: &str, origin: &str| {
        let ask = daemon.ask("POST", "/login").with("Host", host);
        let ask = ask.form(&format!("token={}", scene.tokens[2]));
        ask.with("Sec-Fetch-Site", "same-origin")
            .with("Origin", origin)
            .send()
    };
    for (host, origin) in [
        ("ops.example", "https://ops.example"),
        ("ops.example.net:8443", "https://ops.example.net:8443"),
        // As some pass on the name without the port.
        ("ops.example.net", "https://ops.example.net:8443"),
    ] {
        let told = login(host, origin);
        let cookie = signed_in(&told);
        let set = told.header("set-cookie").unwrap();
        assert!(
            set.starts_with("__Host-posthaste=") && set.contains("; Secure"),
            "{set}"
        );
        let pause = |host: &str, origin: &str| {
            let ask = daemon.ask("POST", &daemon.path("pause")).with("Host", host);
            let ask = ask.json(&json!({"why": "to try it"}));
            ask.with("Cookie", &cookie).with("Origin", origin).send()
        };
        assert_eq!(pause(host, origin).status, 200);
        pause(host, "https://evil.example").fails(403, "admin.cross_site");
        pause(host, &origin.replace("https", "http")).fails(403, "admin.cross_site");
        // The cookie is for there, and not for those who call by the address.
        let bare = format!("http://{}", daemon.address);
        pause(&daemon.address, &bare).fails(401, "admin.unauthenticated");
    }
    // Nobody said that TLS is spoken there.
    login("plain.example", "https://plain.example").fails(403, "admin.cross_site");
    assert_eq!(login("plain.example", "http://plain.example").status, 303);
}

fn signed_in(told: &Told) -> String {
    assert_eq!(
        (told.status, told.header("location")),
        (303, Some("/")),
        "{told:?}"
    );
    let cookie = told.header("set-cookie").unwrap();
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    cookie.split(';').next().unwrap().to_owned()
}

#[test]
fn a_session_lasts_until_it_is_ended() {
    let scene = Scene::sqlite();
    let daemon = scene.run();
    let login = |form: &str| daemon.ask("POST", "/login").form(form).send();
    let wrong = login("token=phst_wrong");
    assert_eq!(wrong.status, 401);
    assert!(wrong.body.contains("not known here") && wrong.header("set-cookie").is_none());
    let cookie = signed_in(&login(&format!("token={}", scene.tokens[1])));
    let me = |cookie: &str| {
        daemon
            .ask("GET", "/api/v1/me")
            .with("Cookie", cookie)
            .send()
    };
    let told = me(&cookie).done();
    assert_eq!(
        (&told["name"], &told["role"]),
        (&json!("viewer"), &json!("viewer"))
    );
    assert_eq!(
        daemon.ask("GET", "/").with("Cookie", &cookie).send().status,
        200
    );
    let out = daemon.ask("POST", "/logout").with("Cookie", &cookie);
    assert_eq!(out.with("Sec-Fetch-Site", "same-origin").send().status, 303);
    me(&cookie).fails(401, "admin.unauthenticated");
    assert!(!daemon.log().contains(cookie.split('=').nth(1).unwrap()));
}

#[test]
fn an_expired_token_lets_nobody_in() {
    let scene = Scene::sqlite();
    let made = scene.posthaste(&[
        "token",
        "create",
        "ada",
        "--role",
        "operator",
        "--expires",
        "0s",
        "--json",
    ]);
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let line = made["line"].as_str().unwrap();
    scene.configure(&format!("tokens = [\"{line}\"]"), "", STDOUT);
    let daemon = scene.run();
    let token = made["token"].as_str().unwrap();
    let told = daemon.ask("GET", "/api/v1/me").by(token).send();
    told.fails(401, "admin.token_expired");
    let told = daemon
        .ask("POST", "/login")
        .form(&format!("token={token}"))
        .send();
    assert_eq!(told.status, 401);
}

#[test]
fn without_tokens_this_machine_may_look_and_no_more_unless_told_so() {
    let scene = Scene::sqlite();
    for (role, status) in [(None, 403), (Some("operator"), 200)] {
        let admin = role.map_or(String::new(), |role| format!("without_tokens = {role:?}"));
        scene.configure(&admin, "", STDOUT);
        let daemon = scene.run();
        let me = daemon.ask("GET", "/api/v1/me").send().done();
        assert_eq!(me["role"], role.unwrap_or("viewer-no-payload"));
        assert_eq!(
            (&me["name"], &me["tokens"]),
            (&json!("local"), &json!(false))
        );
        let pause = daemon
            .ask("POST", &daemon.path("pause"))
            .json(&json!({"why": "x"}));
        assert_eq!(pause.send().status, status);
        // No page of another site, even so.
        let pause = pause.with("Origin", "https://evil.example");
        pause.send().fails(403, "admin.cross_site");
        let token = daemon.ask("GET", "/api/v1/me").by(&scene.tokens[2]).send();
        token.fails(401, "admin.unauthenticated");
    }
}

#[test]
fn who_asks_too_often_is_told_to_wait() {
    let scene = Scene::sqlite();
    scene.configure("tokens_file = \"tokens\"\nrate_limit = 5", "", STDOUT);
    let daemon = scene.run();
    let ask = |place: usize| {
        daemon
            .ask("GET", "/api/v1/me")
            .by(&scene.tokens[place])
            .send()
    };
    let mut answers = (0..60).map(|_| ask(0));
    let refused = answers.find(|told| told.status == 429).expect("a limit");
    assert_eq!(refused.header("retry-after"), Some("1"));
    refused.fails(429, "admin.too_many");
    assert_eq!(ask(2).status, 200, "others are not kept waiting");
    assert_eq!(
        daemon.ask("GET", "/livez").send().status,
        200,
        "nor are probes"
    );
    let mut guesses = (0..30).map(|_| daemon.ask("POST", "/login").form("token=guess").send());
    assert!(guesses.any(|told| told.status == 429), "guessing is slow");
}

#[test]
fn every_answer_tells_browsers_what_they_must_not_do() {
    let scene = Scene::sqlite();
    let daemon = scene.run();
    for path in [
        "/",
        "/login",
        "/livez",
        "/api/v1/overview",
        "/nothing",
        "/metrics",
    ] {
        let told = daemon.ask("GET", path).by(&scene.tokens[2]).send();
        let csp = told.header("content-security-policy").unwrap();
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ] {
            assert!(csp.contains(rule), "{path}: {csp}");
        }
        assert!(!csp.contains("unsafe"), "{csp}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(told.header(name), Some(value), "{path}: {name}");
        }
        assert!(told.header("access-control-allow-origin").is_none());
    }
}

#[test]
fn what_is_not_there_and_what_is_too_much_is_refused_in_json() {
    let scene = Scene::sqlite();
    let daemon = scene.run();
    daemon.get("/api/v1/nothing").fails(404, "admin.not_found");
    daemon
        .get("/api/v1/outboxes/public.other/events")
        .fails(404, "admin.no_outbox");
    let told = daemon
        .ask("DELETE", "/api/v1/overview")
        .by(&scene.tokens[2])
        .send();
    assert!(
        told.header("allow")
            .is_some_and(|allow| allow.contains("GET")),
        "{told:?}"
    );
    told.fails(405, "admin.method");
    let long = "x".repeat(300 * 1024);
    daemon
        .post("pause", &json!({ "why": long }))
        .fails(413, "admin.too_large");
    daemon
        .post("pause", &json!({"why": ""}))
        .fails(400, "admin.body");
    daemon
        .post("pause", &json!({"why": "x", "sink": "log"}))
        .fails(400, "admin.body");
    daemon.get("events?colour=red").fails(400, "admin.query");
    daemon
        .get("events?limit=1&limit=2")
        .fails(400, "admin.query");
    daemon.get("events?limit=0").fails(400, "admin.query");
    daemon.get("events?cursor=here").fails(400, "admin.query");
    daemon.get("events/7").fails(400, "admin.query");
}
