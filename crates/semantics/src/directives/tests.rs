use super::*;
use crate::testing::{fields, fuzz};

fn response(value: &str) -> ResponseDirectives {
    ResponseDirectives::of(&fields(&std::format!("Cache-Control: {value}")))
}

fn request(value: &str) -> RequestDirectives {
    let mut all = RequestDirectives::default();
    all.read(value.as_bytes());
    all
}

#[test]
fn arguments_come_as_token_or_quoted_string() {
    // RFC 9111 §5.2 and §4.2.1: (value, max-age)
    for (value, expected) in [
        ("max-age=5", Some(5)),
        ("MAX-AGE=5", Some(5)),
        ("max-age=\"5\"", Some(5)),
        ("max-age = 5", Some(5)),
        (" , ,max-age=5,,", Some(5)),
        ("foo=\"max-age=9\", max-age=5", Some(5)),
        ("foo=\"a,max-age=9\",max-age=5", Some(5)),
        ("max-age=5, max-age=9", Some(5)),
        ("max-age=99999999999999999999", Some(1 << 31)),
        ("max-age=", Some(0)),
        ("max-age", Some(0)),
        ("max-age='5'", Some(0)),
        ("max-age=-5", Some(0)),
        ("max-age=5.0", Some(0)),
        ("max-age=5 6", Some(0)),
        ("x-max-age=5", None),
        ("max-agee=5", None),
        ("", None),
    ] {
        assert_eq!(response(value).max_age.map(|span| span.0), expected, "{value}");
    }
}

#[test]
fn response_directives_are_told_apart() {
    // RFC 9111 §5.2.2, RFC 5861, RFC 8246
    let none = ResponseDirectives::default;
    for (value, expected) in [
        ("public", ResponseDirectives { public: true, ..none() }),
        ("private", ResponseDirectives { private: true, ..none() }),
        ("private=\"set-cookie\"", ResponseDirectives { private: true, ..none() }),
        ("no-store", ResponseDirectives { no_store: true, ..none() }),
        ("a=\"b, no-store", ResponseDirectives { no_store: true, ..none() }),
        ("a=\"b\\\", no-store", ResponseDirectives { no_store: true, ..none() }),
        ("a=\"b\\\", no-store\"", none()),
        ("a=\"b, no-store\"", none()),
        ("no-store=0", ResponseDirectives { no_store: true, ..none() }),
        ("No-Cache=\"a, b\"", ResponseDirectives { no_cache: true, ..none() }),
        ("must-revalidate", ResponseDirectives { must_revalidate: true, ..none() }),
        ("proxy-revalidate", ResponseDirectives { proxy_revalidate: true, ..none() }),
        ("must-understand", ResponseDirectives { must_understand: true, ..none() }),
        ("immutable", ResponseDirectives { immutable: true, ..none() }),
        ("s-maxage=7", ResponseDirectives { s_maxage: Some(Seconds(7)), ..none() }),
        (
            "stale-while-revalidate=1, stale-if-error=2",
            ResponseDirectives {
                stale_while_revalidate: Some(Seconds(1)),
                stale_if_error: Some(Seconds(2)),
                ..none()
            },
        ),
        ("no-transform, max-stale, min-fresh=1, only-if-cached, a-name-longer-than-any-known", none()),
    ] {
        assert_eq!(response(value), expected, "{value}");
    }
}

#[test]
fn request_directives_are_told_apart() {
    // RFC 9111 §5.2.1, RFC 5861 §4
    let none = RequestDirectives::default;
    for (value, expected) in [
        ("no-cache", RequestDirectives { no_cache: true, ..none() }),
        ("NO-STORE", RequestDirectives { no_store: true, ..none() }),
        ("only-if-cached", RequestDirectives { only_if_cached: true, ..none() }),
        ("max-age=3", RequestDirectives { max_age: Some(Seconds(3)), ..none() }),
        ("max-age=x", RequestDirectives { max_age: Some(Seconds(0)), ..none() }),
        ("min-fresh=3", RequestDirectives { min_fresh: Some(Seconds(3)), ..none() }),
        ("min-fresh=x", RequestDirectives { min_fresh: Some(Seconds::MAX_DELTA), ..none() }),
        ("max-stale", RequestDirectives { max_stale: Some(MaxStale::Any), ..none() }),
        ("max-stale=3", RequestDirectives { max_stale: Some(MaxStale::UpTo(Seconds(3))), ..none() }),
        ("max-stale=x", none()),
        ("stale-if-error=3", RequestDirectives { stale_if_error: Some(Seconds(3)), ..none() }),
        ("public, private, s-maxage=1", none()),
    ] {
        assert_eq!(request(value), expected, "{value}");
    }
}

#[test]
fn directives_of_several_lines_add_up() {
    let fields = fields("Cache-Control: max-age=1\nX: y\ncache-control: no-cache, max-age=2");
    let all = ResponseDirectives::of(&fields);
    assert_eq!((all.max_age, all.no_cache), (Some(Seconds(1)), true));
}

#[test]
fn any_bytes_read_to_the_same_directives_in_any_case() {
    fuzz(|bytes| {
        let upper = bytes.to_ascii_uppercase();
        let (mut lower_case, mut upper_case) = (RequestDirectives::default(), RequestDirectives::default());
        lower_case.read(bytes);
        upper_case.read(&upper);
        assert_eq!(lower_case, upper_case);
        for directive in directives(bytes) {
            assert!(directive.seconds() <= Some(Seconds::MAX_DELTA));
            assert!(!directive.name.contains(&b'='));
        }
    });
}
