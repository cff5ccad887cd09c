//! The queues of the server and their bounds: `docs/overload.md` has a row for each, and the source says which.
//!
//! What must hold: whatever can hold, or make wait, more and more (a collection that lives in a type, a channel, a place
//! where several wait) says in the comment in front of it `Queue: ` and the first cell of its row, and each row is named so.
//! Each bound names settings that exist, or constants that exist with the number that stands behind them. Plain vectors
//! count where they are shared, behind a lock or a cell: most others have the length that they were made with.

use std::collections::{BTreeMap, BTreeSet};

use crate::{cells, files, quoted, read, root, shown, text, without_tests};

/// Where the server's code is. `load` measures it, and serves nobody.
const SERVER: [&str; 7] = [
    "crates/proxy/src",
    "crates/store/src",
    "crates/pump/src",
    "crates/sys/src",
    "crates/wire/src",
    "crates/semantics/src",
    "src",
];

/// What grows where it is part of a type.
const GROWS: [&str; 16] = [
    "VecDeque<",
    "BinaryHeap<",
    "LinkedList<",
    "Slab<",
    "HashMap<",
    "HashSet<",
    "HashTable<",
    "BTreeMap<",
    "BTreeSet<",
    "Mutex<Vec<",
    "RefCell<Vec<",
    "JoinSet<",
    "FuturesUnordered<",
    ": Notify",
    ": Condvar",
    "Option<Waker>",
];

/// What makes a queue wherever it is called; the last two queue in the kernel, and for a helper.
const MAKES: [&str; 8] = [
    "mpsc::channel",
    "mpsc::sync_channel",
    "unbounded_channel",
    "broadcast::channel",
    "watch::channel",
    "Semaphore::new",
    ".listen(",
    "lookup_host(",
];

/// Rows whose bound is no number of ours.
const BOUND_BY_NATURE: [&str; 3] =
    ["what there is a fixed number of", "what changes while an index is completed", "objects of the store"];

/// A row of the table.
struct Row {
    queue: String,
    bound: String,
}

fn rows(document: &str) -> Vec<Row> {
    let section = document.split("\n## ").find(|section| section.starts_with("Queues and their bounds"));
    let table = section.unwrap_or_else(|| panic!("no section of queues")).lines().filter_map(cells);
    let row = |row: Vec<&str>| Row { queue: row[0].to_owned(), bound: row[1].to_owned() };
    table.filter(|row| row[0] != "queue" && !row[0].starts_with("---")).map(row).collect()
}

/// The queues that a source file declares: the line, and the row that the comment in front of it names.
fn queues(source: &str) -> Vec<(&str, Option<&str>)> {
    let mut found = Vec::new();
    let mut mark = None;
    let mut inside: Option<usize> = None;
    for line in source.lines() {
        let code = line.split("//").next().unwrap_or_default().trim();
        let indent = line.len() - line.trim_start().len();
        if inside.is_none() && declares_a_type(code) {
            inside = Some(indent);
        }
        let is_part = inside.is_some() && GROWS.iter().any(|word| code.contains(word));
        if is_part || !code.starts_with("use ") && MAKES.iter().any(|word| code.contains(word)) {
            found.push((code, mark));
        }
        if inside == Some(indent) && (code.ends_with(';') || code.ends_with('}')) {
            inside = None;
        }
        match line.split_once("// ").or_else(|| line.split_once("/// ")) {
            Some((_, comment)) => mark = named(comment).or(mark),
            None if code.starts_with("#[") => {}
            None => mark = None,
        }
    }
    found
}

/// Whether a line begins a struct, an enum or a type.
fn declares_a_type(code: &str) -> bool {
    let word = code.split_whitespace().find(|word| !word.starts_with("pub") && !word.ends_with(')'));
    word.is_some_and(|word| ["struct", "enum", "union", "type", "static"].contains(&word))
}

/// The row that a line of a comment names.
fn named(comment: &str) -> Option<&str> {
    comment.split_once("Queue: ").map(|(_, row)| row.trim_end_matches('.'))
}

/// All rows that the server's source names, and queues without one.
fn marks() -> (BTreeSet<String>, Vec<String>) {
    let (mut marks, mut without) = (BTreeSet::new(), Vec::new());
    let folders = SERVER.map(|folder| root().join(folder));
    for path in folders.iter().flat_map(|folder| files(folder, "rs")) {
        let shown = shown(&path);
        if shown.contains("/tests") || shown.contains("/sim/") {
            continue;
        }
        let source = read(&path);
        let source = without_tests(&source);
        marks.extend(
            source
                .lines()
                .filter_map(|line| line.split_once("//"))
                .filter_map(|(_, comment)| named(comment))
                .map(str::to_owned),
        );
        without.extend(
            queues(source)
                .iter()
                .filter(|(_, mark)| mark.is_none())
                .map(|(line, _)| format!("{shown}: {line}")),
        );
    }
    (marks, without)
}

#[test]
fn every_queue_has_a_row() {
    let (marks, without) = marks();
    assert!(without.is_empty(), "`Queue: ` and the row of docs/overload.md that bounds it: {without:#?}");
    let rows: BTreeSet<_> = rows(&text("docs/overload.md")).into_iter().map(|row| row.queue).collect();
    assert!(rows.len() > 20, "only {} rows", rows.len());
    assert_eq!(marks.difference(&rows).collect::<Vec<_>>(), Vec::<&String>::new(), "no such row");
    assert_eq!(rows.difference(&marks).collect::<Vec<_>>(), Vec::<&String>::new(), "no such queue");
}

/// All integer constants of the server, by name; a name with two meanings has two.
fn constants() -> BTreeMap<String, BTreeSet<u64>> {
    let mut found = BTreeMap::<_, BTreeSet<_>>::new();
    let folders = SERVER.map(|folder| root().join(folder));
    for path in folders.iter().flat_map(|folder| files(folder, "rs")) {
        for line in without_tests(&read(&path)).lines() {
            if let Some((name, value)) = constant(line) {
                found.entry(name.to_owned()).or_default().insert(value);
            }
        }
    }
    found
}

/// Name and value of the constant that a line defines.
fn constant(line: &str) -> Option<(&str, u64)> {
    let (_, rest) = line.split_once("const ")?;
    let (name, rest) = rest.split_once(':')?;
    let (_, value) = rest.split_once(" = ")?;
    Some((name, number(value.strip_suffix(';')?)?))
}

/// The value of a product or a shift of numbers.
fn number(text: &str) -> Option<u64> {
    let integer = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
    match text.split_once("<<") {
        Some((number, shift)) => Some(integer(number)? << integer(shift)?),
        None => text.split('*').map(integer).product(),
    }
}

/// The number that a text begins with: `64 KiB per worker`.
fn stated(text: &str) -> Option<u64> {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let number: u64 = words.next()?.parse().ok()?;
    let unit = match words.next() {
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        _ => 1,
    };
    Some(number * unit)
}

/// What is wrong with a bound.
fn fault(bound: &str, settings: &str, constants: &BTreeMap<String, BTreeSet<u64>>) -> Option<String> {
    let mut names = quoted(bound).peekable();
    if names.peek().is_none() {
        return Some("names nothing".to_owned());
    }
    let wrong = |name: &str| -> Option<String> {
        if name.contains('.') {
            let is_there = settings.contains(&format!("| `{name}` |"));
            return (!is_there).then(|| format!("no setting {name}"));
        }
        let said = bound.split_once(&format!("`{name}`, ")).and_then(|(_, text)| stated(text));
        let is_so = said.is_some() && constants.get(name) == Some(&BTreeSet::from_iter(said));
        (!is_so).then(|| format!("{name} is {:?}, not {said:?}", constants.get(name)))
    };
    names.find_map(wrong)
}

#[test]
fn every_bound_is_as_the_source_has_it() {
    let (settings, constants) = (text("docs/settings.md"), constants());
    let faults = |row: &Row| {
        let by_nature = BOUND_BY_NATURE.contains(&row.queue.as_str());
        let fault = fault(&row.bound, &settings, &constants).filter(|_| !by_nature);
        fault.map(|fault| format!("{}: {fault}", row.queue))
    };
    let rows = rows(&text("docs/overload.md"));
    assert!(BOUND_BY_NATURE.iter().all(|queue| rows.iter().any(|row| row.queue == *queue)));
    let faults: Vec<_> = rows.iter().filter_map(faults).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn a_queue_without_a_bound_is_noticed() {
    let source = "struct A {\n    /// Queue: these.\n    #[x]\n    a: VecDeque<u8>,\n    b: VecDeque<u8>,\n}\n\
                  fn c(d: VecDeque<u8>) {\n    let e = watch::channel(0);\n    // Queue: those.\n    let f = watch::channel(0);\n}\n\
                  type G = Mutex<HashMap<u8, u8>>;\nlet h = HashMap::<u8, u8>::new();\npub(super) struct I(RefCell<Vec<u8>>);\n";
    let found = queues(source);
    assert_eq!(
        found.iter().map(|(_, mark)| *mark).collect::<Vec<_>>(),
        [Some("these"), None, None, Some("those"), None, None]
    );
    assert!(found[4].0.starts_with("type G") && found[5].0.contains("struct I"));
}

#[test]
fn a_bound_that_is_not_so_is_noticed() {
    let constants = |text: &str| {
        text.lines()
            .filter_map(constant)
            .map(|(name, value)| (name.to_owned(), BTreeSet::from([value])))
            .collect()
    };
    let constants = constants(
        "const A: usize = 64 * 1024;\n    pub(super) const B: u64 = 8 << 20;\nconst C: u32 = 1_000;\n",
    );
    let fault = |bound: &str| fault(bound, "| `limits.backlog` |", &constants);
    for good in
        ["`A`, 64 KiB per worker", "`B`, 8 MiB", "`C`, 1000, and `limits.backlog`", "`limits.backlog`"]
    {
        assert_eq!(fault(good), None, "{good}");
    }
    for bad in
        ["some", "`A`", "`A`, 64", "`B`, 8 KiB", "`D`, 1", "`limits.backlogs`", "`C`, 1000 or `A`, 63 KiB"]
    {
        assert!(fault(bad).is_some(), "{bad}");
    }
}
