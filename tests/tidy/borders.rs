//! The borders between the crates: who depends on whom, where `unsafe` may stand, what a crate cannot reach.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::{cells, files, quoted, read, root, shown, text, without_tests};

/// The one crate that may hold `unsafe`.
const WITH_UNSAFE: &str = "sys";

/// Crates that the standard library's clocks, sockets and threads do not exist in.
const WITHOUT_STD: [&str; 2] = ["wire", "semantics"];

/// What `store` must not reach for. A `Duration` in its tests is no clock.
const BEYOND_THE_STORE: [&str; 6] = ["time", "fs", "net", "thread", "process", "env"];

/// Name and folder of each package of the workspace. What measures it against others has workspaces of its own.
fn packages() -> BTreeMap<String, PathBuf> {
    let bench = root().join("bench");
    let mut packages = all_packages();
    packages.retain(|_, folder| !folder.starts_with(&bench));
    packages
}

/// The same with those under `bench`.
fn all_packages() -> BTreeMap<String, PathBuf> {
    let manifests = files(root(), "toml").into_iter().filter(|path| path.ends_with("Cargo.toml"));
    let folder = |manifest: PathBuf| manifest.parent().map(Path::to_path_buf);
    let named = |folder: PathBuf| Some((package_name(&read(&folder.join("Cargo.toml")))?, folder));
    manifests.filter_map(folder).filter_map(named).collect()
}

fn package_name(manifest: &str) -> Option<String> {
    let (_, package) = manifest.split_once("[package]")?;
    let line = package.lines().find(|line| line.starts_with("name"))?;
    line.split('"').nth(1).map(str::to_owned)
}

/// What a manifest depends on in sections whose name ends in `section`, by package name.
fn dependencies(manifest: &str, section: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let (table, name) = header.rsplit_once('.').unwrap_or(("", header));
            inside = name == section && table != "workspace";
            if table == section {
                found.insert(name.to_owned());
            }
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            found.insert(dependency(line).to_owned());
        }
    }
    found
}

/// The package that one line asks for, under whatever name.
fn dependency(line: &str) -> &str {
    match line.split_once("package = \"") {
        Some((_, rest)) => rest.split('"').next().unwrap_or(rest),
        None => line.split(['.', '=', ' ']).next().unwrap_or(line),
    }
}

/// The table of `ARCHITECTURE.md`: for each crate those of ours that it may use.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let document = text("ARCHITECTURE.md");
    let mut rows = document.lines().skip_while(|line| !line.starts_with("| crate |"));
    let head = cells(rows.next().unwrap_or_default()).unwrap_or_default();
    let uses = head.iter().position(|cell| *cell == "uses").unwrap_or_else(|| panic!("no column `uses`"));
    let row = |line| -> Option<(String, BTreeSet<String>)> {
        let row = cells(line)?;
        let name = quoted(row[0]).next()?.to_owned();
        Some((name, quoted(row.get(uses)?).map(str::to_owned).collect()))
    };
    rows.skip(1).map_while(row).collect()
}

#[test]
fn crates_depend_on_each_other_as_the_table_says() {
    let (packages, table) = (packages(), table());
    assert_eq!(table.keys().collect::<Vec<_>>(), packages.keys().collect::<Vec<_>>(), "crates of the table");
    let ours = |names: BTreeSet<String>| -> BTreeSet<String> {
        names.into_iter().filter(|name| packages.contains_key(name)).collect()
    };
    for (name, folder) in &packages {
        let manifest = read(&folder.join("Cargo.toml"));
        assert_eq!(ours(dependencies(&manifest, "dependencies")), table[name], "{name}");
        let others = ["dev-dependencies", "build-dependencies"];
        let for_tests = others.iter().flat_map(|section| ours(dependencies(&manifest, section)));
        let stray: Vec<_> =
            for_tests.filter(|used| used != "testkit" && !table[name].contains(used)).collect();
        assert!(stray.is_empty(), "{name} is tested with {stray:?}");
    }
}

#[test]
fn manifests_are_read_in_every_form() {
    let manifest = "[package]\nname = \"a\"\n[dependencies]\nb.workspace = true\nc = { path = \"../c\" }\n\
                    # d = \"1\"\n\ne = { package = \"f\", version = \"1\" }\n[dev-dependencies]\ng = \"1\"\n\
                    [target.'cfg(unix)'.dependencies]\nh = \"1\"\n[dependencies.i]\nversion = \"1\"\n\
                    [workspace.dependencies]\nj = \"1\"\n";
    assert_eq!(package_name(manifest).as_deref(), Some("a"));
    assert_eq!(Vec::from_iter(dependencies(manifest, "dependencies")), ["b", "c", "f", "h", "i"]);
    assert_eq!(Vec::from_iter(dependencies(manifest, "dev-dependencies")), ["g"]);
}

/// The lines of a source file without comments. A `//` inside of a string ends its line too: the compiler is the judge,
/// this is the witness.
fn code(source: &str) -> impl Iterator<Item = &str> {
    source
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

/// The file that the compiler starts from.
fn crate_root(folder: &Path) -> PathBuf {
    let library = folder.join("src/lib.rs");
    if library.is_file() { library } else { folder.join("src/main.rs") }
}

#[test]
fn unsafe_code_is_forbidden_everywhere_but_in_one_crate() {
    for (name, folder) in all_packages() {
        let source = read(&crate_root(&folder));
        let wanted = if name == WITH_UNSAFE { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
        // A crate that holds no code yet has nothing to forbid.
        let is_empty = code(&source).next().is_none();
        assert!(is_empty || code(&source).any(|line| line == wanted), "{name}: no {wanted}");
    }
}

#[test]
fn the_word_unsafe_stands_in_one_crate_only() {
    let sources = files(&root().join("crates"), "rs");
    let outside = |path: &&PathBuf| !path.starts_with(root().join("crates").join(WITH_UNSAFE));
    let is_stray = |line: &&str| {
        has_word(line, "unsafe") || has_word(line, "unsafe_code") && *line != "#![forbid(unsafe_code)]"
    };
    for path in sources.iter().filter(outside) {
        assert_eq!(code(&read(path)).find(is_stray), None, "{}", shown(path));
    }
    let inside = sources.iter().filter(|path| !outside(path));
    assert!(inside.map(|path| read(path)).any(|source| code(&source).any(|line| has_word(line, "unsafe"))));
}

#[test]
fn pure_crates_have_no_standard_library() {
    for name in WITHOUT_STD {
        let source = text(&format!("crates/{name}/src/lib.rs"));
        assert!(code(&source).any(|line| line == "#![no_std]"), "{name}");
        let brought_back = |pair: &[&str]| pair[1].contains("extern crate std") && pair[0] != "#[cfg(test)]";
        assert!(!code(&source).collect::<Vec<_>>().windows(2).any(brought_back), "{name}");
    }
}

/// The modules of `std` that a source names, in a path or in a group.
fn std_modules(source: &str) -> BTreeSet<String> {
    let joined: String = code(source).flat_map(str::chars).filter(|c| !c.is_whitespace()).collect();
    let mut found = BTreeSet::new();
    for after in joined.split("std::").skip(1) {
        let group = after.strip_prefix('{').map(|rest| rest.split(';').next().unwrap_or(rest));
        let names = group.map_or_else(|| vec![after], |group| group.split(',').collect());
        let word =
            |name: &str| name.split(|c: char| !c.is_alphanumeric() && c != '_').next().map(str::to_owned);
        found.extend(names.into_iter().filter_map(word).filter(|name| !name.is_empty()));
    }
    found
}

/// Names of the modules that are compiled for tests only.
fn test_modules(sources: &[PathBuf]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in sources {
        let source = read(path);
        let lines: Vec<_> = source.lines().map(str::trim).collect();
        let is_test = |pair: &&[&str]| pair[0] == "#[cfg(test)]" && pair[1].ends_with(';');
        let name = |pair: &[&str]| {
            pair[1].trim_end_matches(';').rsplit_once("mod ").map(|(_, name)| name.to_owned())
        };
        found.extend(lines.windows(2).filter(is_test).filter_map(name));
    }
    found
}

#[test]
fn the_store_sees_no_clock_file_or_socket() {
    let sources = files(&root().join("crates/store/src"), "rs");
    let for_tests = test_modules(&sources);
    let is_test = |path: &Path| {
        let shown = shown(path);
        shown.split('/').any(|part| for_tests.contains(part.trim_end_matches(".rs")))
    };
    let mut looked_at = 0;
    for path in sources.iter().filter(|path| !is_test(path)) {
        let modules = std_modules(without_tests(&read(path)));
        let reached: Vec<_> = BEYOND_THE_STORE.iter().filter(|module| modules.contains(**module)).collect();
        assert!(reached.is_empty(), "{} reaches std::{reached:?}", shown(path));
        looked_at += 1;
    }
    assert!(looked_at > 15, "only {looked_at} files");
    let others = dependencies(&text("crates/store/Cargo.toml"), "dependencies");
    assert!(["tokio", "rustix", "libc", "socket2"].iter().all(|name| !others.contains(*name)), "{others:?}");
}

#[test]
fn modules_of_std_are_seen_in_every_form() {
    let source = "use std::fs;\nuse std::{\n    net::TcpStream, // std::env\n    sync::Arc,\n};\nlet now = std::time::Instant::now();";
    let modules = std_modules(source);
    assert_eq!(Vec::from_iter(modules.iter().map(String::as_str)), ["fs", "net", "sync", "time"]);
}

/// Rules that tests may switch off cannot be switched off in what is shipped.
#[test]
fn faults_are_for_tests_only() {
    for (name, folder) in packages() {
        let manifest = read(&folder.join("Cargo.toml"));
        let mut section = "";
        for line in manifest.lines().map(str::trim) {
            section = if line.starts_with('[') { line } else { section };
            let wanted = line.contains("\"faults\"");
            assert!(!wanted || section.contains("dev-dependencies"), "{name}: {section}: {line}");
        }
    }
}
