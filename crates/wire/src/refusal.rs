//! Every way in which this crate says no. A refusal names the rule that was broken, in a word for the log, and
//! says which status a client deserves; it never holds bytes of the message.

use core::fmt;

macro_rules! refusals {
    ($($(#[doc = $doc:literal])+ $variant:ident = $word:literal, $status:literal;)+) => {
        /// Why a message was refused. After any of these the connection cannot be used further: where the next
        /// message begins is not known.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Refusal {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Refusal {
            /// All refusals, for tables of metrics and for tests.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word for logs and metrics: lower case and hyphens.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// The status code for the client whose *request* was refused. A refused *response* is answered
            /// with 502 (Bad Gateway) whatever the refusal.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self {
                    $(Self::$variant => $status,)+
                }
            }
        }
    };
}

refusals! {
    // Bytes and lines (RFC 9112 §2.2)
    /// A CR that is not followed by LF.
    BareCr = "bare-cr", 400;
    /// A LF that does not follow a CR.
    BareLf = "bare-lf", 400;
    /// A NUL byte in the head.
    Nul = "nul", 400;
    /// More empty lines before the start line than are tolerated (none before a status line).
    EmptyLine = "empty-line", 400;

    // The start line (RFC 9112 §3, §4)
    /// Whitespace in the start line other than the single spaces between its parts.
    StartLineWhitespace = "start-line-whitespace", 400;
    /// The method is not a token.
    BadMethod = "bad-method", 400;
    /// The method is longer than any that is known (RFC 9112 §3).
    MethodTooLong = "method-too-long", 501;
    /// The request target is empty, holds a byte outside 0x21–0x7E, or fits none of the four forms.
    BadTarget = "bad-target", 400;
    /// The request target is over the limit.
    TargetTooLong = "target-too-long", 414;
    /// The start line does not name a version as `HTTP/DIGIT.DIGIT`.
    BadVersion = "bad-version", 400;
    /// A major version other than 1, the HTTP/2 preface among them.
    VersionUnsupported = "version-unsupported", 505;
    /// The status code is not three digits from 100 on.
    BadStatus = "bad-status", 400;
    /// The reason phrase or the whole status line is malformed or over the limit.
    BadStatusLine = "bad-status-line", 400;

    // Field lines (RFC 9112 §5)
    /// A line that begins with whitespace: obs-fold, or a blank before the first field (RFC 9112 §5.2, §2.2).
    ObsFold = "obs-fold", 400;
    /// A field line without a colon.
    ColonMissing = "colon-missing", 400;
    /// A field line that begins with its colon.
    EmptyName = "empty-name", 400;
    /// Whitespace between a field name and its colon (RFC 9112 §5.1).
    SpaceBeforeColon = "space-before-colon", 400;
    /// A field name that is not a token.
    BadFieldName = "bad-field-name", 400;
    /// A control character in a field value.
    ControlInValue = "control-in-value", 400;
    /// The head is over the limit.
    HeadTooLong = "head-too-long", 431;
    /// More field lines than the limit.
    TooManyFields = "too-many-fields", 431;
    /// One field line is over the limit.
    FieldLineTooLong = "field-line-too-long", 431;

    // Who is asked (RFC 9112 §3.2)
    /// An HTTP/1.1 request without `Host`, or a target that needs it and finds it absent or empty.
    HostMissing = "host-missing", 400;
    /// More than one `Host` line.
    HostRepeated = "host-repeated", 400;
    /// `Host` or the target's authority is not a host with an optional port.
    BadAuthority = "bad-authority", 400;
    /// The target's authority holds userinfo (RFC 9110 §4.2.4).
    UserinfoInTarget = "userinfo-in-target", 400;
    /// The target holds a fragment.
    FragmentInTarget = "fragment-in-target", 400;
    /// An absolute-form target with a scheme other than `http` or `https`.
    SchemeUnsupported = "scheme-unsupported", 400;

    // Where the body ends (RFC 9112 §6)
    /// Both `Content-Length` and `Transfer-Encoding`.
    BothLengthAndEncoding = "both-length-and-encoding", 400;
    /// A `Content-Length` that is not digits only.
    BadLength = "bad-length", 400;
    /// A `Content-Length` of 2^63 or more.
    LengthOverflow = "length-overflow", 400;
    /// Several `Content-Length` values that are not the same.
    LengthDiffers = "length-differs", 400;
    /// Several `Content-Length` values that are the same.
    LengthRepeated = "length-repeated", 400;
    /// A `Transfer-Encoding` that is no list of codings, or has parameters on `chunked`.
    BadEncoding = "bad-encoding", 400;
    /// A transfer coding that is not implemented (RFC 9112 §6.1).
    UnknownEncoding = "unknown-encoding", 501;
    /// `chunked` more than once.
    ChunkedRepeated = "chunked-repeated", 400;
    /// `chunked` is there and is not the last coding.
    ChunkedNotLast = "chunked-not-last", 400;
    /// `Transfer-Encoding` in an HTTP/1.0 message (RFC 9112 §6.1).
    EncodingInHttp10 = "encoding-in-http10", 400;
    /// A `CONNECT` request that announces content (RFC 9110 §9.3.6).
    BodyOnConnect = "body-on-connect", 400;
    /// A 1xx or 204 response that announces a body (RFC 9112 §6.1, RFC 9110 §8.6).
    BodyOnBodiless = "body-on-bodiless", 400;

    // Chunks (RFC 9112 §7.1)
    /// A chunk size that is not 1 to 16 hexadecimal digits directly followed by `;` or CRLF, or is 2^63 or more.
    BadChunkSize = "bad-chunk-size", 400;
    /// A control character in a chunk extension.
    BadChunkExtension = "bad-chunk-extension", 400;
    /// Chunk extensions out of proportion to the payload.
    ChunkExtensionTooLong = "chunk-extension-too-long", 400;
    /// The payload of a chunk is not followed by CRLF.
    BadChunkEnd = "bad-chunk-end", 400;
    /// The trailer section is over its limit.
    TrailersTooLong = "trailers-too-long", 431;
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl core::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_distinct_and_printable() {
        for (at, refusal) in Refusal::ALL.iter().enumerate() {
            let word = refusal.word();
            assert!(
                !word.is_empty()
                    && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            );
            assert!(Refusal::ALL[..at].iter().all(|earlier| earlier.word() != word), "{word} is there twice");
        }
    }

    #[test]
    fn statuses_are_those_a_server_may_send() {
        for refusal in Refusal::ALL {
            assert!(matches!(refusal.status(), 400 | 414 | 431 | 501 | 505), "{refusal}");
        }
    }
}
