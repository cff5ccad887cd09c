//! Keeps `docs/rfc9111.md` from rotting: each function and each test it names must exist in the module it names.
#![allow(clippy::unwrap_used, reason = "a missing file is a failed test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The names in backquotes of one table cell.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The rows of all requirement tables: five cells, the last two with names.
fn rows(text: &str) -> Vec<[&str; 5]> {
    let cells = |line| -> Option<[&str; 5]> {
        let inner = str::strip_prefix(line, '|')?.strip_suffix('|')?;
        inner.split('|').map(str::trim).collect::<Vec<_>>().try_into().ok()
    };
    let is_row = |row: &[&str; 5]| !row[0].starts_with('-') && row[0] != "§";
    text.lines().filter_map(cells).filter(is_row).collect()
}

/// The sources of the module that a name begins with, its tests included.
fn source(name: &str) -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (home, name) = name.strip_prefix("wire::").map_or(("semantics", name), |rest| ("wire", rest));
    let module = name.split("::").next().unwrap();
    let folder = crates.join(home).join("src");
    let files = [folder.join(format!("{module}.rs")), folder.join(module).join("tests.rs")];
    files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect()
}

/// Whether the module has a function of that name; a test is one that follows `#[test]`.
fn exists(name: &str, is_test: bool) -> bool {
    let function = format!("fn {}(", name.rsplit("::").next().unwrap());
    let generic = function.replace('(', "<");
    let source = source(name);
    let mut lines = source.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let mut previous = "";
    lines.any(|line| {
        let found = line.contains(&function) || line.contains(&generic);
        let right_kind = (previous == "#[test]") == is_test;
        previous = line;
        found && right_kind
    })
}

#[test]
fn every_requirement_names_what_exists() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rfc9111.md");
    let text = fs::read_to_string(document).unwrap();
    let rows = rows(&text);
    assert!(rows.len() > 60, "only {} rows were read", rows.len());
    let mut missing = BTreeSet::new();
    for [section, _, requirement, functions, tests] in rows {
        assert!(names(functions).count() > 0 && names(tests).count() > 0, "{section}: {requirement}");
        missing.extend(names(functions).filter(|name| !exists(name, false)));
        missing.extend(names(tests).filter(|name| !exists(name, true)));
    }
    assert!(missing.is_empty(), "not in the source: {missing:?}");
}

#[test]
fn what_does_not_exist_is_noticed() {
    assert!(exists("storing::may_store", false) && !exists("storing::may_store", true));
    assert!(!exists("storing::may_store_everything", false) && !exists("nowhere::may_store", false));
    assert!(exists("wire::fields::end_to_end", false));
}
