//! A webhook does not reach into the network that the relay stands in.

use posthaste_relay::sink::{Http, Outcome};

use crate::endpoint::*;

#[test]
fn an_address_in_the_url_is_refused_however_it_is_written() {
    for host in [
        "127.0.0.1",
        "127.1",
        "127.0.0.1.",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "0",
        "0.0.0.0",
        "10.0.0.1",
        "169.254.169.254",
        "0xa9fea9fe",
        "192.168.1.1",
        "[::]",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "１２７.０.０.１",
        "127.0.0.1:8080",
    ] {
        let error = Http::builder(format!("http://{host}/hook"))
            .build()
            .unwrap_err();
        assert!(
            error.to_string().contains("no public address"),
            "{host}: {error}"
        );
        let allowed = Http::builder(format!("http://{host}/hook")).allow_any_address();
        assert!(allowed.build().is_ok(), "{host}");
    }
}

#[tokio::test]
async fn a_name_that_leads_inside_is_not_dialled() {
    let endpoint = Endpoint::at_localhost().await;
    let port = endpoint.address.port();
    for host in ["localhost", "LOCALHOST", "localhost."] {
        let sink = Http::builder(format!("http://{host}:{port}/"))
            .build()
            .unwrap();
        let outcome = outcome(&sink).await;
        let Outcome::Unavailable(why) = outcome else {
            panic!("{host}: {outcome:?}");
        };
        // Not every system looks the last one up.
        assert!(
            why.contains("no public address") || host.ends_with('.'),
            "{why}"
        );
    }
    assert!(endpoint.calls().is_empty());
}

#[tokio::test]
async fn what_is_allowed_is_dialled() {
    let endpoint = Endpoint::willing().await;
    let network = format!("{}/32", endpoint.address.ip());
    let allowed = [
        Http::builder(endpoint.url("/")).allow(network),
        Http::builder(endpoint.url("/")).allow(endpoint.address.ip().to_string()),
        Http::builder(endpoint.url("/")).allow_any_address(),
    ];
    for builder in allowed {
        assert_eq!(outcome(&builder.build().unwrap()).await, Outcome::Delivered);
    }
    // Another network does not help.
    let other = Http::builder(endpoint.url("/")).allow("10.0.0.0/8");
    assert!(other.build().is_err());
}

// The proxies of the environment are not asked: they would dial for us, unguarded.
#[test]
fn a_proxy_of_the_environment_is_not_used() {
    if std::env::var_os("POSTHASTE_TEST_BEHIND_PROXY").is_some() {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let endpoint = Endpoint::willing().await;
            assert_eq!(outcome(&endpoint.sink()).await, Outcome::Delivered);
        });
        return;
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "guard::a_proxy_of_the_environment_is_not_used"])
        .env("POSTHASTE_TEST_BEHIND_PROXY", "1")
        .env("http_proxy", "http://127.0.0.1:1")
        .env("HTTP_PROXY", "http://127.0.0.1:1")
        .env("ALL_PROXY", "http://127.0.0.1:1")
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .status()
        .unwrap();
    assert!(status.success());
}
