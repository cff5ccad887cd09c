use super::*;
use crate::testing::fields;
use proptest::prelude::*;
use std::string::ToString;

fn names(vary: &str) -> VaryNames {
    VaryNames::of(&fields(&std::format!("Vary: {vary}")))
}

fn key(vary: &str, lines: &str) -> Vec<u8> {
    let mut out = Vec::new();
    secondary_key(&mut out, &names(vary), &fields(lines));
    out
}

#[test]
fn names_are_a_set_without_case() {
    // RFC 9111 §4.1, RFC 9110 §12.5.5
    for (lines, expected) in [
        ("Vary: Accept", "accept"),
        ("Vary: b, A ,b,,a", "a,b"),
        ("Vary: b\nVary: a", "a,b"),
        ("Vary:", ""),
        ("X: y", ""),
        ("Vary: *", "*"),
        ("Vary: a, *", "*"),
        ("Vary: a b", "*"),
        ("Vary: \"a\"", "*"),
    ] {
        let names = VaryNames::of(&fields(lines));
        assert_eq!(names.as_str(), expected, "{lines}");
        assert_eq!(names.is_any(), expected == "*", "{lines}");
        assert_eq!(names.is_empty(), expected.is_empty(), "{lines}");
        assert_eq!(VaryNames::parse(names.as_str()), names, "{lines}");
    }
}

#[test]
fn a_union_has_the_names_of_both() {
    for (a, b, expected) in
        [("a,c", "b,c", "a,b,c"), ("", "b", "b"), ("*", "b", "*"), ("b", "*", "*"), ("", "", "")]
    {
        assert_eq!(names(a).union(&names(b)).as_str(), expected);
    }
}

#[test]
fn requests_match_if_their_selected_fields_do() {
    // RFC 9111 §4.1: (Vary, one request, another, match)
    for (vary, one, other, same) in [
        ("", "A: 1", "A: 2", true),
        ("a", "A: 1", "a: 1", true),
        ("a", "A: 1", "A: 2", false),
        ("a", "A: 1\nB: 1", "A: 1\nB: 2", true),
        ("a,b", "A: 1\nB: 1", "B: 1\nA: 1", true),
        ("a", "X: y", "A:", false),
        ("a", "X: y", "Z: y", true),
        ("a", "A: 1\nA: 2", "A: 1, 2", true),
        ("a", "A: 1\nA: 2", "A: 2\nA: 1", false),
        ("a", "A: x", "A: X", false),
        ("a,b", "A: 1", "B: 1", false),
        ("accept-encoding", "Accept-Encoding: gzip, br", "accept-encoding: BR,gzip", true),
        ("accept-encoding", "Accept-Encoding: gzip;q=0.5", "accept-encoding: gzip ; q=0.5", true),
        ("accept-encoding", "Accept-Encoding: gzip", "accept-encoding: gzip;q=0", false),
        ("accept-encoding", "Accept-Encoding:", "X: y", false),
        ("accept-language", "Accept-Language: de, en;q=0.5", "Accept-Language: DE,en; q=0.5", true),
        ("accept-language", "Accept-Language: de, en", "Accept-Language: en, de", false),
        ("accept", "Accept: a/b , c/d", "Accept: a/b\nAccept: c/d", true),
        ("accept", "Accept: a/b;x=Y", "Accept: a/b;x=y", false),
        ("user-agent", "User-Agent: a (b, c)", "User-Agent: a (b,c)", false),
    ] {
        assert_eq!(key(vary, one) == key(vary, other), same, "{vary} | {one} | {other}");
    }
}

/// The naive twin: the selected fields as an ordered map of combined values.
fn selected(vary: &str, lines: &[(&str, &str)]) -> std::collections::BTreeMap<String, Option<String>> {
    let pick = |name: &str| {
        let values: Vec<&str> = lines.iter().filter(|line| line.0 == name).map(|line| line.1).collect();
        (!values.is_empty()).then(|| values.join(", "))
    };
    vary.split(',').filter(|name| !name.is_empty()).map(|name| (name.to_string(), pick(name))).collect()
}

proptest! {
    #[test]
    fn keys_are_equal_exactly_if_the_selected_fields_are(
        vary in prop::sample::subsequence(std::vec!["a", "b", "c"], 0..=3),
        one in prop::collection::vec(("[abcd]", "[ab:,]{0,3}"), 0..4),
        other in prop::collection::vec(("[abcd]", "[ab:,]{0,3}"), 0..4),
    ) {
        let vary = vary.join(",");
        let build = |lines: &[(String, String)]| {
            let pairs: Vec<(&str, &str)> = lines.iter().map(|line| (line.0.as_str(), line.1.as_str())).collect();
            let text: Vec<String> = pairs.iter().map(|(name, value)| std::format!("{name}: {value}")).collect();
            (key(&vary, &text.join("\n")), selected(&vary, &pairs))
        };
        let ((key_one, map_one), (key_other, map_other)) = (build(&one), build(&other));
        prop_assert_eq!(key_one == key_other, map_one == map_other);
    }
}
