//! The head of a request as it goes to the origin, and of the response as it comes from there.
//!
//! What must hold: what goes out says nothing that the origin could take for the client's own conditions where the cache
//! asks for itself.

use semantics::validation::{conditions, is_condition};
use wire::framing::ResponseBody;
use wire::{Field, Fields, ResponseHead};

use crate::body::Framing;
use crate::origin::OriginError;
use crate::outbound::Outgoing;
use crate::request::Request;
use crate::respond;
use crate::worker::Worker;

/// The head at the front of what was received, how its body is framed, and its length. `switching`: the request asked
/// for another protocol.
///
/// # Errors
/// [`OriginError`] for what is no response head.
pub fn read_head<'w>(
    worker: &Worker,
    received: &'w [u8],
    method: &str,
    switching: bool,
) -> Result<(ResponseHead<'w>, ResponseBody, usize), OriginError> {
    match wire::parse::response(received, &worker.shared.wire_limits).map_err(OriginError::Protocol)? {
        wire::Parsed::Partial => Err(OriginError::Ended),
        wire::Parsed::Complete { head, len } => {
            let body = wire::framing::response_body(&head, method).map_err(OriginError::Protocol)?;
            if head.status == 101 && !switching {
                return Err(OriginError::Switched);
            }
            Ok((head, body, len))
        }
    }
}

/// Which preconditions go to the origin.
pub(super) enum Conditions<'a> {
    /// The client's, and its ranges.
    Clients,
    /// Ours: the validators of the stored response with these fields, or none; and the client's range, or none.
    Own(Option<&'a Fields<'a>>, Option<&'a [u8]>),
    /// Ours: this range of what is stored, on this condition.
    Part(&'a [u8], Field<'a>),
}

/// The request head as it goes to the origin.
#[must_use]
pub(super) fn request_head(
    worker: &Worker,
    request: &Request<'_>,
    asked: Conditions<'_>,
    body: Outgoing,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let mut target = Vec::with_capacity(128);
    request.uri.write_path_and_query(&mut target, request.head.method);
    wire::write::request_line(&mut out, request.head.method, &target);
    wire::write::field(&mut out, "Host", &request.authority);
    let ours = !matches!(asked, Conditions::Clients);
    let forwards = wire::fields::max_forwards(&request.head);
    for field in wire::fields::end_to_end(&request.head.fields) {
        let replaced = is_replaced(field.name, forwards.is_some());
        if !(replaced || ours && is_condition(field.name)) {
            wire::write::field(&mut out, field.name, field.value);
        }
    }
    if let Some(left) = forwards {
        wire::write::field_decimal(&mut out, "Max-Forwards", left.saturating_sub(1));
    }
    write_conditions(&mut out, asked);
    match body {
        Outgoing::Length(length) => wire::write::field_decimal(&mut out, "Content-Length", length),
        Outgoing::Chunked => wire::write::field(&mut out, "Transfer-Encoding", b"chunked"),
        Outgoing::None if is_usually_with_content(request.head.method) => {
            wire::write::field_decimal(&mut out, "Content-Length", 0);
        }
        Outgoing::None | Outgoing::UntilClose => {}
    }
    respond::write_via(&mut out, request.head.version, &worker.shared.pseudonym);
    wire::write::end_head(&mut out);
    out
}

fn write_conditions(out: &mut Vec<u8>, asked: Conditions<'_>) {
    match asked {
        Conditions::Clients => {}
        Conditions::Own(validators, range) => {
            for field in validators.into_iter().flat_map(conditions) {
                wire::write::field(out, field.name, field.value);
            }
            if let Some(range) = range {
                wire::write::field(out, "Range", range);
            }
        }
        Conditions::Part(range, condition) => {
            wire::write::field(out, "Range", range);
            wire::write::field(out, condition.name, condition.value);
        }
    }
}

/// Fields of a request that are written anew.
fn is_replaced(name: &str, counts_forwards: bool) -> bool {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    is("host") || is("content-length") || counts_forwards && is("max-forwards")
}

/// The head of a request to change the protocol, as it goes to the origin (RFC 9110 §7.8).
#[must_use]
pub fn upgrade_head(worker: &Worker, request: &Request<'_>) -> Vec<u8> {
    let mut head = request_head(worker, request, Conditions::Clients, Outgoing::None);
    head.truncate(head.len() - b"\r\n".len());
    for protocol in request.head.fields.all("upgrade") {
        wire::write::field(&mut head, "Upgrade", protocol);
    }
    wire::write::field(&mut head, "Connection", b"Upgrade");
    wire::write::end_head(&mut head);
    head
}

/// Methods for which a missing length would leave the origin in doubt (RFC 9110 §8.6).
fn is_usually_with_content(method: &str) -> bool {
    matches!(method, "POST" | "PUT" | "PATCH")
}

/// Where a body of that kind ends.
pub(super) fn framing(worker: &Worker, body: ResponseBody) -> Framing {
    match body {
        ResponseBody::None | ResponseBody::Tunnel => Framing::Length(0),
        ResponseBody::Length(n) => Framing::Length(n),
        ResponseBody::Chunked => {
            Framing::Chunked(Box::new(wire::chunked::ChunkedDecoder::new(&worker.shared.wire_limits)))
        }
        ResponseBody::UntilClose => Framing::UntilClose,
    }
}
