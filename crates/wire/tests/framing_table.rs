//! The table in `docs/framing.md` names functions and tests that exist.

#![allow(clippy::expect_used)]

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

const TABLE: &str = include_str!("../../../docs/framing.md");

/// The cells of each row, without the rules and headings of the tables.
fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| rule ");
    TABLE.lines().filter(is_row).map(cells)
}

/// The text of one source file.
fn source(path: PathBuf) -> String {
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

#[test]
fn every_row_names_a_function_and_a_test_that_exist() {
    let tests: String = ["scan", "parse", "fields", "target", "framing", "chunked"]
        .map(|module| source(sources().join(module).join("tests.rs")))
        .concat();
    for row in rows() {
        let [rule, _section, function, test] = row[..] else { panic!("not four cells: {row:?}") };
        let (module, name) = function.trim_matches('`').split_once("::").expect(rule);
        let module = source(sources().join(module).with_extension("rs"));
        assert!(module.contains(&format!("fn {name}")), "{rule}: no function {function}");
        assert!(tests.contains(&format!("fn {}(", test.trim_matches('`'))), "{rule}: no test {test}");
    }
}

#[test]
fn the_table_has_no_row_twice() {
    let mut rules = HashSet::new();
    assert!(rows().all(|row| rules.insert(row[0])));
    assert!(rules.len() > 30, "only {} rows were found", rules.len());
}
