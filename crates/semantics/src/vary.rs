//! Calculating cache keys with `Vary` (RFC 9111 §4.1): which request fields select among the stored variants of
//! one key, and the secondary key they give.
//!
//! What must hold: two requests have the same secondary key exactly if all selected fields match as §4.1 means
//! it. A field that is absent matches only where it is absent too.

use alloc::string::String;
use alloc::vec::Vec;
use smallvec::SmallVec;
use wire::Fields;
use wire::fields::{is_token, list_of};

/// The field names that responses of one key vary on: lower case, sorted, each once; or everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VaryNames {
    /// Joined by commas, which no name contains; `*` alone stands for everything.
    joined: String,
}

/// Names while they are put in order.
type Names<'a> = SmallVec<[&'a [u8]; 8]>;

impl VaryNames {
    /// The names in a response's `Vary`. A member that is no field name is taken as `*`: what it selects by is
    /// unknown.
    #[must_use]
    pub fn of(response: &Fields<'_>) -> Self {
        if varies_on_everything(response) {
            return Self { joined: String::from("*") };
        }
        Self::from_names(list_of(response, "vary").collect())
    }

    /// Reads what [`VaryNames::as_str`] gave.
    #[must_use]
    pub fn parse(joined: &str) -> Self {
        let mut fields = Fields::new();
        fields.push("vary", joined.as_bytes());
        Self::of(&fields)
    }

    /// The names, joined by commas.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.joined
    }

    /// Whether no request ever matches (`Vary: *`).
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.joined == "*"
    }

    /// Whether the responses do not vary.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.joined.is_empty()
    }

    /// The names of both: what tells apart the variants of two responses.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if self.is_any() || other.is_any() {
            return Self { joined: String::from("*") };
        }
        Self::from_names(self.iter().chain(other.iter()).map(str::as_bytes).collect())
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        self.joined.split(',').filter(|name| !name.is_empty())
    }

    fn from_names(names: Names<'_>) -> Self {
        let lower = names.iter().map(|name| String::from_utf8_lossy(name).to_ascii_lowercase());
        let mut ordered: Vec<String> = lower.collect();
        ordered.sort_unstable();
        ordered.dedup();
        Self { joined: ordered.join(",") }
    }
}

/// Whether a response's `Vary` holds `*`, or something that is no field name.
#[must_use]
pub fn varies_on_everything(response: &Fields<'_>) -> bool {
    list_of(response, "vary").any(|member| member == b"*" || !is_token(member))
}

/// Appends the secondary key of a request to `out`: the selected fields as normalised lines, `name` where the
/// field is absent and `name:value` where it is not. Values hold no line feed (`wire` refuses it).
///
/// Of several lines the values are combined, whitespace is dropped where the field's syntax allows it, and codings
/// and languages are compared without case (RFC 9111 §4.1); the order of an `Accept-Encoding` says nothing and is
/// dropped as well.
pub fn secondary_key(out: &mut Vec<u8>, names: &VaryNames, request: &Fields<'_>) {
    for name in names.iter() {
        out.extend_from_slice(name.as_bytes());
        if request.contains(name) {
            out.push(b':');
            write_value(out, name, request);
        }
        out.push(b'\n');
    }
}

fn write_value(out: &mut Vec<u8>, name: &str, request: &Fields<'_>) {
    let start = out.len();
    match name {
        "accept-encoding" => {
            let mut members: Names<'_> = list_of(request, name).collect();
            members.sort_unstable_by(|a, b| a.iter().map(fold).cmp(b.iter().map(fold)));
            write_joined(out, members.into_iter());
            strip_whitespace(out, start);
        }
        "accept-language" | "accept-charset" => {
            write_joined(out, list_of(request, name));
            strip_whitespace(out, start);
        }
        "accept" | "cache-control" | "prefer" => write_joined(out, list_of(request, name)),
        // Of unknown syntax: only the combination of lines is sure to change nothing (RFC 9110 §5.3).
        _ => write_combined(out, request.all(name)),
    }
}

fn fold(byte: &u8) -> u8 {
    byte.to_ascii_lowercase()
}

fn write_joined<'v>(out: &mut Vec<u8>, members: impl Iterator<Item = &'v [u8]>) {
    for (at, member) in members.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(member);
    }
}

fn write_combined<'v>(out: &mut Vec<u8>, lines: impl Iterator<Item = &'v [u8]>) {
    for (at, line) in lines.enumerate() {
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(line);
    }
}

/// Lower case, and no whitespace from `start` on: for lists of tokens with weights.
fn strip_whitespace(out: &mut Vec<u8>, start: usize) {
    let mut end = start;
    for at in start..out.len() {
        if !matches!(out[at], b' ' | b'\t') {
            out[end] = out[at].to_ascii_lowercase();
            end += 1;
        }
    }
    out.truncate(end);
}

#[cfg(test)]
mod tests;
