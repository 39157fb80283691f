//! The API against its own document: whatever the document allows, and much that it does not.

use posthaste_testkit::server;

use crate::look::TOKENS;
use crate::scene::{Scene, every_database};

every_database! { no_request_breaks_the_api_or_gets_an_answer_that_its_document_does_not_tell }

/// Runs schemathesis, and ends with what it found.
const SCRIPT: &str = r#"
import subprocess, sys
address, token = sys.argv[1:]
checks = ["not_a_server_error", "status_code_conformance", "content_type_conformance",
          "response_schema_conformance", "response_headers_conformance"]
run = subprocess.run(
    [sys.executable, "-m", "schemathesis.cli", "run", f"http://{address}/api/v1/openapi.json",
     "--header", f"Authorization: Bearer {token}", "--checks", ",".join(checks),
     "--phases", "examples,coverage,fuzzing", "--mode", "all", "--max-examples", "15",
     "--exclude-path", "/api/v1/live", "--generation-deterministic", "--request-timeout", "20",
     "--suppress-health-check", "all", "--no-color"],
    capture_output=True, text=True)
print(run.stdout[-20000:], run.stderr[-2000:])
sys.exit(0 if run.returncode == 0 else 1)
"#;

fn no_request_breaks_the_api_or_gets_an_answer_that_its_document_does_not_tell(scene: &Scene) {
    scene.configure(TOKENS, "", "[sink.log]\ntype = \"stdout\"");
    scene.enqueue("shop.order.placed.v1", "{}", 3);
    let daemon = scene.run();
    daemon.has(3, "delivered");
    let told = server::python(SCRIPT, &[&daemon.address, &scene.tokens[2]]);
    let told = told.unwrap_or_else(|error| panic!("{error}\n{}", daemon.log()));
    let told = String::from_utf8_lossy(&told);
    assert!(
        told.contains("No issues found") || told.contains("passed"),
        "{told}"
    );
    assert_eq!(daemon.ask("GET", "/livez").send().status, 200);
}
