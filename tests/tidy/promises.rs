//! `SPECIFICATION.md`: every promise has a number and names the tests that fail when it is broken; they exist and run.

use std::path::Path;

use crate::{cells, quoted, root, text};

/// A numbered line: its number, and what it names.
struct Promise {
    number: (u32, u32),
    tests: Vec<String>,
}

fn number(cell: &str) -> Option<(u32, u32)> {
    let (chapter, line) = cell.split_once('.')?;
    Some((chapter.parse().ok()?, line.parse().ok()?))
}

fn promises(document: &str) -> Vec<Promise> {
    let read = |line| -> Option<Promise> {
        let row = cells(line)?;
        let number = number(row[0])?;
        let named = quoted(row.last()?).map(str::to_owned);
        Some(Promise { number, tests: named.collect() })
    };
    document.lines().filter_map(read).collect()
}

/// What is wrong with a test's name, which is `path/of/the/file.rs::function`.
fn fault(name: &str) -> Option<String> {
    let Some((path, function)) = name.split_once("::") else {
        return Some(format!("{name}: not path::function"));
    };
    let is_source = Path::new(path).extension().is_some_and(|extension| extension == "rs");
    if !is_source || !root().join(path).is_file() {
        return Some(format!("{name}: no such file"));
    }
    fault_of_test(&text(path), function).map(|why| format!("{name}: {why}"))
}

fn fault_of_test(source: &str, function: &str) -> Option<&'static str> {
    let lines: Vec<_> = source.lines().map(str::trim).collect();
    let head = format!("fn {function}(");
    let Some(at) = lines.iter().position(|line| line.starts_with(&head)) else {
        return Some("no such function");
    };
    let before = lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    let attributes: Vec<_> = before.collect();
    let is_test = attributes.iter().any(|line| **line == "#[test]");
    let is_ignored = attributes.iter().any(|line| line.starts_with("#[ignore"));
    match (is_test, is_ignored) {
        (false, _) => Some("not a test"),
        (true, true) => Some("ignored"),
        (true, false) => None,
    }
}

#[test]
fn every_promise_names_tests_that_exist() {
    let promises = promises(&text("SPECIFICATION.md"));
    assert!(promises.len() > 40, "only {} promises", promises.len());
    let unheld: Vec<_> =
        promises.iter().filter(|promise| promise.tests.is_empty()).map(|p| p.number).collect();
    assert!(unheld.is_empty(), "nothing fails when these are broken: {unheld:?}");
    let faults: Vec<_> =
        promises.iter().flat_map(|promise| &promise.tests).filter_map(|name| fault(name)).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn promises_are_numbered_in_order() {
    let numbers: Vec<_> = promises(&text("SPECIFICATION.md")).iter().map(|promise| promise.number).collect();
    let follows = |pair: &[(u32, u32)]| match (pair[0], pair[1]) {
        ((a, n), (b, m)) if a == b => m == n + 1,
        ((a, _), (b, m)) => b == a + 1 && m == 1,
    };
    let odd: Vec<_> = numbers.windows(2).filter(|pair| !follows(pair)).collect();
    assert!(odd.is_empty(), "{odd:?}");
}

#[test]
fn a_promise_without_a_test_is_noticed() {
    let source = "#[test]\nfn good() {}\nfn helper() {}\n#[test]\n#[ignore = \"slow\"]\nfn late() {}\n";
    assert_eq!(fault_of_test(source, "good"), None);
    assert_eq!(fault_of_test(source, "helper"), Some("not a test"));
    assert_eq!(fault_of_test(source, "late"), Some("ignored"));
    assert_eq!(fault_of_test(source, "goo"), Some("no such function"));
    assert!(fault("tests/nowhere.rs::good").is_some() && fault("good").is_some());
    let table = "| nr | promise | held by |\n|---|---|---|\n| 1.1 | this | `a.rs::b`, `c.rs::d` |\n| 1.2 | that | |\n";
    let read: Vec<_> = promises(table).into_iter().map(|p| (p.number, p.tests.len())).collect();
    assert_eq!(read, [((1, 1), 2), ((1, 2), 0)]);
}
