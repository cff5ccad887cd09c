//! `CONNECT` and `Upgrade`: after the head the connection belongs to the two ends, and we only move bytes.

use std::rc::Rc;

use semantics::cache_status::{CacheStatus, Forward, Forwarded};
use wire::framing::ResponseBody;

use crate::exchange::{End, Exchange, Outcome};
use crate::fetch;
use crate::metrics::RequestResult;
use crate::origin::OriginError;
use crate::origin::ask::{Ask, Behalf, ask};
use crate::respond::{self, Made};

/// Opens a tunnel to the target (RFC 9110 §9.3.6).
pub async fn connect(x: &mut Exchange<'_>) -> Outcome {
    let endpoints = x.request.endpoints(x.worker, x.client.mode);
    let Some(endpoint) = endpoints.first() else {
        return x.made(&Made::origin(&OriginError::NoOrigin)).await;
    };
    let connection = match x.worker.origins.new_connection(endpoint, &x.client.watch).await {
        Ok(connection) => connection,
        Err(error) => return x.made(&Made::origin(&error)).await,
    };
    x.origin.set(Some(connection.address));
    let mut head = b"HTTP/1.1 200 Connection Established\r\n".to_vec();
    respond::write_via(&mut head, x.request.head.version, &x.worker.shared.pseudonym);
    head.extend_from_slice(b"Cache-Status: ");
    CacheStatus::forwarded(Forwarded::because(Forward::Method)).write(&mut head);
    head.extend_from_slice(b"\r\n\r\n");
    join(x, 200, &head, &connection.socket, &[]).await
}

/// Asks the origin to change the protocol (RFC 9110 §7.8), and joins the two ends if it does.
pub async fn upgrade(x: &mut Exchange<'_>) -> Outcome {
    let endpoints = x.request.endpoints(x.worker, x.client.mode);
    let head = fetch::upgrade_head(x.worker, x.request);
    let behalf = Behalf::Client(x.client, x.request.head.version);
    let ask_for = Ask { endpoints: &endpoints, head: &head, body: None, replayable: false, behalf };
    let answer = match ask(x.worker, &x.client.watch, ask_for).await {
        Ok(answer) => answer,
        Err(error) => return x.made(&Made::origin(&error)).await,
    };
    x.origin.set(Some(answer.connection.address));
    let (status, head, head_len) = match accepted(x, answer.window.filled()) {
        Ok(Some(accepted)) => accepted,
        Ok(None) => return fetch::pass(x, answer, Forward::Bypass, Some("upgrade-declined")).await,
        Err(error) => return x.made(&Made::origin(&error)).await,
    };
    let head = x.client.behind_interim(head);
    join(x, status, &head, &answer.connection.socket, &answer.window.filled()[head_len..]).await
}

/// Status, head for the client and bytes used, if the origin changes the protocol.
fn accepted(x: &Exchange<'_>, received: &[u8]) -> Result<Option<(u16, Vec<u8>, usize)>, OriginError> {
    let (response, body, used) = fetch::read_head(x.worker, received, x.request.head.method, true)?;
    if body != ResponseBody::Tunnel {
        return Ok(None);
    }
    let mut head = Vec::with_capacity(256);
    wire::write::status_line(&mut head, response.status, response.reason);
    let framing = ["content-length", "transfer-encoding"];
    for field in wire::fields::end_to_end(&response.fields) {
        if !framing.iter().any(|name| field.name.eq_ignore_ascii_case(name)) {
            wire::write::field(&mut head, field.name, field.value);
        }
    }
    for protocol in response.fields.all("upgrade") {
        wire::write::field(&mut head, "Upgrade", protocol);
    }
    wire::write::field(&mut head, "Connection", b"Upgrade");
    respond::write_via(&mut head, response.version, &x.worker.shared.pseudonym);
    head.extend_from_slice(b"Cache-Status: ");
    CacheStatus::forwarded(Forwarded::because(Forward::Bypass)).write(&mut head);
    head.extend_from_slice(b"\r\n\r\n");
    Ok(Some((response.status, head, used)))
}

/// Sends the head, then what either end sent too early, then everything.
async fn join(
    x: &mut Exchange<'_>,
    status: u16,
    head: &[u8],
    origin: &pump::Socket,
    early: &[u8],
) -> Outcome {
    let worker = Rc::clone(x.worker);
    let timeouts = &worker.shared.settings.timeouts;
    let (client, watch) = (&x.client.socket, &x.client.watch);
    let mut outcome = Outcome { ends_connection: true, ..Outcome::new(status, RequestResult::Tunnel) };
    client.acknowledge_at_once();
    let opened = async {
        pump::memory::send_two(client, head, early, false, watch, &worker.to_client()).await?;
        pump::memory::send(origin, x.behind, false, watch, &worker.with_origin()).await
    };
    if opened.await.is_err() {
        return Outcome { end: End::ClientGone, ..outcome };
    }
    let carried =
        pump::tunnel::join(client, origin, &worker.pipes, &worker.timers, timeouts.tunnel_idle).await;
    worker.metrics.body_bytes(crate::metrics::Route::Splice, carried.leftward);
    outcome.body_bytes = carried.leftward + early.len() as u64;
    outcome
}
