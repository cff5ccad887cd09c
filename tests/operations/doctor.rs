//! `tidegate doctor`: what it says holds together, whatever machine this is.

use serde_json::Value;
use testkit::{Run, Tidegate, not_run};

fn findings(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

#[test]
fn the_exit_code_is_what_the_findings_say() {
    let run = Tidegate::run(&["doctor", "--json"]);
    let json = findings(&run);
    let all = json["findings"].as_array().unwrap();
    let of = |verdict: &str| all.iter().filter(|finding| finding["verdict"] == verdict).count();
    assert!(all.len() >= 15, "{json:#}");
    assert_eq!(of("fine") + of("note") + of("change") + of("unknown"), all.len(), "{json:#}");
    assert_eq!(run.code, i32::from(of("change") > 0), "{json:#}");
    assert_eq!(json["fine"].as_bool(), Some(run.code == 0));
    for finding in all {
        let advised = ["note", "change"].iter().any(|word| finding["verdict"] == *word);
        assert_eq!(advised, finding["advice"].is_string() && finding["because"].is_string(), "{finding:#}");
    }
    let text = Tidegate::run(&["doctor"]);
    assert_eq!(text.code, run.code);
    assert!(text.stdout.contains("io_uring: "), "{}", text.stdout);
}

#[test]
fn it_judges_by_the_configuration_and_looks_at_its_devices() {
    let home = tempfile::TempDir::new().unwrap();
    let shm = tempfile::TempDir::new_in("/dev/shm");
    let Ok(shm) = shm else {
        return not_run(
            "operations::doctor::it_judges_by_the_configuration_and_looks_at_its_devices",
            "needs /dev/shm",
        );
    };
    let in_memory = shm.path().join("store");
    std::fs::write(&in_memory, [0; 8192]).unwrap();
    let file = home.path().join("tidegate.toml");
    let device = |path: &std::path::Path| format!("[[store.device]]\npath = \"{}\"\n", path.display());
    let not_yet = device(&home.path().join("none")) + "size = \"64MiB\"\n";
    let toml = format!("[limits]\nbacklog = 65535\n{}{not_yet}", device(&in_memory));
    std::fs::write(&file, toml).unwrap();
    let run = Tidegate::run(&["doctor", "--json", "-c", file.to_str().unwrap()]).expect(1);
    let json = findings(&run);
    let direct: Vec<_> = json["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["subject"].as_str().unwrap().starts_with("direct I/O of"))
        .map(|finding| finding["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(direct, ["change", "unknown"], "{json:#}");
    let backlog = "net.core.somaxconn=65535";
    assert!(
        run.stdout.contains(backlog)
            || std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim() == "65535"
    );
    std::fs::write(&file, "[limits]\nbacklog = 0\n").unwrap();
    Tidegate::run(&["doctor", "-c", file.to_str().unwrap()]).expect(2);
}
