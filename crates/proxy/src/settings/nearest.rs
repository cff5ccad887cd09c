//! "Did you mean": the known name that a mistyped one is closest to.

/// The closest of `known`, if it is close enough to be what was meant: at most one edit in three characters.
pub(super) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let best = known.into_iter().map(|name| (edits(typed, name), name)).min()?;
    (best.0 <= (typed.len() / 3).max(1)).then_some(best.1)
}

/// Insertions, removals and replacements that make `a` of `b` (Levenshtein), row by row.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, n) in
            [("", "", 0), ("", "abc", 3), ("size", "size", 0), ("sise", "size", 1), ("kitten", "sitting", 3)]
        {
            assert_eq!((edits(a, b), edits(b, a)), (n, n), "{a} {b}");
        }
    }

    #[test]
    fn only_what_is_close_is_proposed() {
        let known = ["memory", "workers", "timeouts"];
        assert_eq!(nearest("memroy", known), Some("memory"));
        assert_eq!(nearest("worker", known), Some("workers"));
        assert_eq!(nearest("cluster", known), None);
    }
}
