//! Links in the documents, and documents that the source speaks of.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::{files, read, root, shown};

/// The lines of a Markdown text that are not inside of a fence.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Where the links of a line lead.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

fn is_elsewhere(link: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| link.starts_with(scheme))
}

/// The anchors that the headings of a document have.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings =
        prose(text).filter_map(|line| line.strip_prefix('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings
        .map(|heading| heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-"))
        .collect()
}

/// What is wrong with a link that stands in `document`.
fn broken(document: &Path, link: &str) -> Option<String> {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
    let target = match path {
        "" => document.to_path_buf(),
        path => document.parent().unwrap_or(root()).join(path),
    };
    let is_there = target.exists();
    let has_anchor = || anchor.is_none_or(|anchor| anchors(&read(&target)).contains(anchor));
    (!is_there || !has_anchor()).then(|| format!("{}: {link}", shown(document)))
}

#[test]
fn every_link_leads_somewhere() {
    let documents = files(root(), "md");
    assert!(documents.len() > 8, "only {} documents", documents.len());
    let of = |document: &PathBuf| -> Vec<String> {
        let text = read(document);
        let links: Vec<_> = prose(&text).flat_map(links).filter(|link| !is_elsewhere(link)).collect();
        links.into_iter().filter_map(|link| broken(document, link)).collect()
    };
    let broken: Vec<_> = documents.iter().flat_map(of).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn broken_links_are_seen() {
    let here = root().join("README.md");
    assert!(broken(&here, "Cargo.toml").is_none() && broken(&here, "no-such-file.md").is_some());
    assert!(broken(&here, "README.md#no-such-heading").is_some());
    assert_eq!(links("[a](b.md) and [c](d/e.md#f)").collect::<Vec<_>>(), ["b.md", "d/e.md#f"]);
    assert_eq!(prose("a\n```\n[b](c)\n```\nd").collect::<Vec<_>>(), ["a", "d"]);
}

/// Files under `docs/` that a line of source speaks of.
fn mentioned(line: &str) -> impl Iterator<Item = &str> {
    let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    let starts = line.match_indices("docs/").map(|(at, _)| &line[at..]);
    let ends = move |rest: &str| rest.find(|c| !is_path(c)).unwrap_or(rest.len());
    starts.map(move |rest| &rest[..ends(rest)]).filter(|path| path.ends_with(".md"))
}

#[test]
fn documents_that_the_source_speaks_of_are_there() {
    let folders = ["crates", "src", "tests"].map(|folder| root().join(folder));
    let mut missing = BTreeSet::new();
    let mut seen = 0;
    for path in folders.iter().flat_map(|folder| files(folder, "rs")) {
        for name in read(&path).lines().flat_map(mentioned) {
            seen += 1;
            if !root().join(name).is_file() {
                missing.insert(format!("{}: {name}", shown(&path)));
            }
        }
    }
    assert!(seen > 5, "only {seen} mentions");
    assert!(missing.is_empty(), "{missing:#?}");
}
