//! The manifests: against the published schemas, against each other, and against the program.

use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use posthaste_testkit::server;
use serde_json::Value;

use crate::{STOP, repository};

/// The oldest that is looked after, and the newest.
const VERSIONS: [&str; 2] = ["1.33", "1.36"];

fn manifests(version: &str) -> Vec<Value> {
    let folder = repository().join("ops/kubernetes");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .filter(|path| path.ends_with(".yaml"))
        .collect();
    files.sort();
    let mut arguments = vec![version];
    arguments.extend(files.iter().map(String::as_str));
    let printed = server::python(include_str!("manifests.py"), &arguments).unwrap();
    let lines = String::from_utf8(printed).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

pub(crate) fn of_kind(kind: &str) -> Value {
    static ALL: LazyLock<Vec<Value>> = LazyLock::new(|| manifests(VERSIONS[0]));
    let mut found = ALL.iter().filter(|it| it["kind"] == kind).cloned();
    let only = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(found.next().is_none(), "several {kind}");
    only
}

pub(crate) fn pod() -> Value {
    of_kind("Deployment")["spec"]["template"]["spec"].clone()
}

#[test]
fn the_schemas_of_kubernetes_accept_every_manifest() {
    for version in VERSIONS {
        let all = manifests(version);
        let kustomization = all.iter().find(|it| it["kind"] == "Kustomization").unwrap();
        let listed: Vec<&str> = kustomization["resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it.as_str().unwrap())
            .collect();
        for manifest in all.iter().filter(|it| it["kind"] != "Kustomization") {
            let file = manifest["file"].as_str().unwrap();
            let is_example = file == "secret.example.yaml";
            assert_eq!(listed.contains(&file), !is_example, "{file}");
        }
    }
}

#[test]
fn all_manifests_are_about_the_same_pods() {
    let deployment = of_kind("Deployment");
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&of_kind("Service")["spec"]["selector"], labels);
    assert_eq!(
        &of_kind("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        labels
    );
    assert_eq!(
        &of_kind("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        labels
    );
    let (replicas, stay) = (
        deployment["spec"]["replicas"].as_u64().unwrap(),
        of_kind("PodDisruptionBudget")["spec"]["minAvailable"]
            .as_u64()
            .unwrap(),
    );
    assert!(stay < replicas, "a machine could never be drained");
}

// When a database is away, nobody is ready, and machines are drained all the same.
#[test]
fn pods_that_are_not_ready_keep_no_machine_from_being_drained() {
    let budget = of_kind("PodDisruptionBudget");
    assert_eq!(budget["spec"]["unhealthyPodEvictionPolicy"], "AlwaysAllow");
}

// When a database is away, nobody is ready, and somebody has to look.
#[test]
fn operators_reach_pods_that_are_not_ready_and_stay_with_the_one_that_knows_their_session() {
    let service = of_kind("Service");
    assert_eq!(service["spec"]["publishNotReadyAddresses"], true);
    assert_eq!(service["spec"]["sessionAffinity"], "ClientIP");
    let affinity = &service["spec"]["sessionAffinityConfig"]["clientIP"];
    assert_eq!(affinity["timeoutSeconds"], 10_800);
}

#[test]
fn the_pods_stop_in_time_and_may_do_nothing_else() {
    let pod = pod();
    let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(Duration::from_secs(grace) > STOP);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["enableServiceLinks"], false);
    let containers = pod["containers"].as_array().unwrap().iter();
    for container in containers.chain(pod["initContainers"].as_array().unwrap()) {
        let context = &container["securityContext"];
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["capabilities"]["drop"][0], "ALL");
        assert!(container["resources"]["limits"]["memory"].is_string());
        // Secrets are files: variables show up in too many places.
        assert!(container.get("env").is_none() && container.get("envFrom").is_none());
    }
    let container = &pod["containers"][0];
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/livez");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
}

#[test]
fn the_program_accepts_the_configuration_and_the_secrets_of_the_example() {
    let folder = tempfile::tempdir().unwrap();
    let data = &of_kind("ConfigMap")["data"];
    let configuration = data["posthaste.toml"].as_str().unwrap();
    let mounted = pod()["containers"][0]["volumeMounts"][1]["mountPath"].clone();
    let mounted = mounted.as_str().unwrap();
    assert!(
        configuration.contains(mounted),
        "the secrets are where they are looked for"
    );
    let configuration = configuration.replace(mounted, folder.path().to_str().unwrap());
    std::fs::write(folder.path().join("posthaste.toml"), &configuration).unwrap();
    for (name, text) in of_kind("Secret")["stringData"].as_object().unwrap() {
        assert!(configuration.contains(&**name), "nobody reads {name}");
        std::fs::write(folder.path().join(name), text.as_str().unwrap()).unwrap();
    }
    let checked = Command::new(env!("CARGO_BIN_EXE_posthaste"))
        .args(["config", "check"])
        .current_dir(folder.path())
        .env_clear()
        // Those who write manifests of their own may leave the links on.
        .env("POSTHASTE_SERVICE_HOST", "10.96.0.7")
        .env("POSTHASTE_SERVICE_PORT_ADMIN", "7411")
        .env("POSTHASTE_PORT_7411_TCP", "tcp://10.96.0.7:7411")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{told}");
    assert!(!told.contains("warning"), "{told}");
}
