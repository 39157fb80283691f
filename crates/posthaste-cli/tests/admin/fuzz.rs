//! The API against its own document: whatever the document allows, and much that it does not.

use posthaste_testkit::server;

use crate::look::TOKENS;
use crate::scene::{Scene, every_database};

every_database! { no_request_breaks_the_api_or_gets_an_answer_that_its_document_does_not_tell }

/// Runs schemathesis, and ends with what it found. The outbox is one that is there, and so are
/// some of the events: else it would meet nothing but 404. Probes answer 503 when something is ill.
const SCRIPT: &str = r#"
import json, pathlib, subprocess, sys, tempfile, urllib.request
address, token, outbox, *events = sys.argv[1:]
ask = urllib.request.Request(f"http://{address}/api/v1/openapi.json",
                             headers={"Authorization": f"Bearer {token}"})
document = json.load(urllib.request.urlopen(ask))
for path in document["paths"].values():
    for operation in path.values():
        for parameter in operation["parameters"]:
            if parameter["name"] == "outbox":
                parameter["schema"] = {"enum": [outbox]}
            elif parameter["name"] == "id" and parameter["in"] == "path":
                parameter["schema"] = {"anyOf": [{"enum": events}, parameter["schema"]]}
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "openapi.json").write_text(json.dumps(document))
checks = ["not_a_server_error", "status_code_conformance", "content_type_conformance",
          "response_schema_conformance", "response_headers_conformance"]
run = subprocess.run(
    [sys.executable, "-m", "schemathesis.cli", "run", "openapi.json", "--url", f"http://{address}/",
     "--header", f"Authorization: Bearer {token}", "--checks", ",".join(checks),
     "--phases", "coverage,fuzzing", "--mode", "all", "--max-examples", "10",
     "--exclude-path-regex", "^/(livez|readyz|healthz|api/v1/live)$",
     "--generation-with-security-parameters", "false", "--generation-deterministic",
     "--max-time", "90", "--request-timeout", "20", "--suppress-health-check", "all",
     "--warnings", "off", "--no-color"],
    capture_output=True, text=True, cwd=folder)
print(run.stdout[-20000:], run.stderr[-2000:])
if run.returncode:
    sys.exit(run.stdout[-20000:] + run.stderr[-2000:])
"#;

fn no_request_breaks_the_api_or_gets_an_answer_that_its_document_does_not_tell(scene: &Scene) {
    scene.configure(TOKENS, "", "[sink.log]\ntype = \"stdout\"");
    scene.enqueue("shop.order.placed.v1", "{}", 3);
    let daemon = scene.run();
    daemon.has(3, "delivered");
    let page = daemon.get("events").done();
    let id = |place: usize| page["events"][place]["id"].as_str().unwrap();
    let arguments = [
        daemon.address.as_str(),
        &scene.tokens[2],
        &scene.table,
        id(0),
        id(1),
    ];
    let told = server::python(SCRIPT, &arguments);
    let told = told.unwrap_or_else(|error| panic!("{error}\n{}", daemon.log()));
    let told = String::from_utf8_lossy(&told);
    // It asked for all that the document tells, and was answered.
    assert!(told.contains("generated"), "{told}");
    let number = |name: &str| -> Option<usize> {
        let rest = told.split_once(name)?.1.trim_start();
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    };
    let (selected, tested) = (number("Selected:"), number("Tested:"));
    assert!(selected.is_some_and(|selected| selected > 20), "{told}");
    assert_eq!(tested, selected, "{told}");
    assert_eq!(daemon.ask("GET", "/livez").send().status, 200);
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
}
