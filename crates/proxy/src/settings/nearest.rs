//! "Did you mean": the known name that a mistyped one is closest to.

/// The closest of `known`, if it is close enough to be what was meant: at most one edit in three characters.
pub(super) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let best = known.into_iter().map(|name| (edits(typed, name), name)).min()?;
    (best.0 <= (typed.len() / 3).max(1)).then_some(best.1)
}

/// Insertions, removals, replacements and swaps of neighbours that make `a` of `b` (optimal string alignment), a row
/// at a time; a swap looks back two rows.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut above: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = row[j] + usize::from(x != y);
            let swapped = i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y;
            let best = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            next.push(if swapped { best.min(above[j - 1] + 1) } else { best });
        }
        above = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, n) in [
            ("", "", 0),
            ("", "abc", 3),
            ("size", "size", 0),
            ("sise", "size", 1),
            ("siez", "size", 1),
            ("ab", "ba", 1),
            ("kitten", "sitting", 3),
        ] {
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
