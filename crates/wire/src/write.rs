//! Heads to bytes (RFC 9112 §3 to §5). Appends to the caller's buffer and never reads it back.
//!
//! What must hold: nothing written here can end a line early. Names, values and targets that come from this
//! crate's parsers cannot; debug builds check the others too, and whoever takes text from elsewhere asks
//! [`crate::fields::is_value`] first.

use crate::chars;
use alloc::vec::Vec;
use core::fmt;

/// Appends `HTTP/1.1 STATUS REASON` and its line end (RFC 9112 §4). `status` is 100–999.
pub fn status_line(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    debug_assert!((100..1000).contains(&status) && chars::is_field_content(reason));
    out.extend_from_slice(b"HTTP/1.1 ");
    decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason);
    end_line(out);
}

/// Appends `METHOD TARGET HTTP/1.1` and its line end (RFC 9112 §3).
pub fn request_line(out: &mut Vec<u8>, method: &str, target: &[u8]) {
    debug_assert!(chars::is_token(method.as_bytes()) && !target.is_empty() && chars::is_visible(target));
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(target);
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Appends one field line (RFC 9112 §5).
pub fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    debug_assert!(chars::is_token(name.as_bytes()) && chars::is_field_content(value));
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    end_line(out);
}

/// Appends one field line whose value is a number: `Content-Length`, `Age`.
pub fn field_decimal(out: &mut Vec<u8>, name: &str, value: u64) {
    debug_assert!(chars::is_token(name.as_bytes()));
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    decimal(out, value);
    end_line(out);
}

/// Appends the blank line that ends a head or a trailer section.
pub fn end_head(out: &mut Vec<u8>) {
    end_line(out);
}

/// Appends a number in decimal digits.
pub fn decimal(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends what displays itself as text.
pub(crate) fn display(out: &mut Vec<u8>, value: impl fmt::Display) {
    struct Text<'a>(&'a mut Vec<u8>);
    impl fmt::Write for Text<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    // Appending to a vector cannot fail, and neither do the addresses that are displayed with this.
    let _ = fmt::Write::write_fmt(&mut Text(out), format_args!("{value}"));
}

fn end_line(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// The reason phrase that goes with a status code (RFC 9110 §15 and the registry it founded); empty for a code
/// without one.
#[must_use]
pub const fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::parse::{Parsed, request, response};
    use proptest::prelude::*;

    #[test]
    fn a_written_request_reads_back() {
        let mut out = Vec::new();
        request_line(&mut out, "GET", b"/a?b");
        field(&mut out, "Host", b"example.com");
        field_decimal(&mut out, "Max-Forwards", 0);
        field(&mut out, "Empty", b"");
        end_head(&mut out);
        assert_eq!(out, b"GET /a?b HTTP/1.1\r\nHost: example.com\r\nMax-Forwards: 0\r\nEmpty: \r\n\r\n");
        let Ok(Parsed::Complete { head, len }) = request(&out, &Limits::default()) else { panic!("refused") };
        assert_eq!((head.method, head.target, len), ("GET", "/a?b", out.len()));
        assert_eq!(head.fields.get("empty"), Some(&b""[..]));
    }

    #[test]
    fn a_written_response_reads_back() {
        for status in [100, 200, 304, 599, 999] {
            let mut out = Vec::new();
            status_line(&mut out, status, reason(status).as_bytes());
            end_head(&mut out);
            let Ok(Parsed::Complete { head, .. }) = response(&out, &Limits::default()) else {
                panic!("refused")
            };
            assert_eq!((head.status, head.reason), (status, reason(status).as_bytes()));
        }
    }

    proptest! {
        #[test]
        fn numbers_are_written_as_the_library_writes_them(value: u64) {
            let mut out = Vec::new();
            decimal(&mut out, value);
            prop_assert_eq!(out, alloc::format!("{value}").into_bytes());
        }
    }
}
