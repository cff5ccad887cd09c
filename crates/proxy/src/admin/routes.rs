//! Which path does what.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::{Method, Request, StatusCode};
use serde_json::json;

use super::answer::{self, Answer};
use super::{AdminError, AdminState, guard, purge};

/// The largest request body.
pub(super) const BODY_BYTES: usize = 64 * 1024;
/// How long a request body may take.
const BODY_TIME: Duration = Duration::from_secs(10);

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers one request. `local` is the address that it was sent to.
pub(super) async fn answer(state: &AdminState, local: IpAddr, request: Request<Incoming>) -> Answer {
    route(state, local, request).await.unwrap_or_else(|error| answer::refusal(&error))
}

async fn route(state: &AdminState, local: IpAddr, request: Request<Incoming>) -> Result<Answer, AdminError> {
    guard::admit(request.headers(), local)?;
    let read = |answer: fn(&AdminState) -> Result<Answer, AdminError>| match *request.method() {
        Method::GET | Method::HEAD => answer(state),
        _ => Err(AdminError::Method("GET, HEAD")),
    };
    match request.uri().path() {
        "/healthz" => read(|_| Ok(answer::json(StatusCode::OK, &json!({"status": "ok"})))),
        "/readyz" => read(|state| Ok(ready(state))),
        "/metrics" => read(metrics),
        "/api/v1/status" => read(|state| Ok(answer::json(StatusCode::OK, &(state.status)()))),
        "/api/v1/purge" => purge(state, request).await,
        _ => Err(AdminError::NotFound),
    }
}

fn ready(state: &AdminState) -> Answer {
    match (state.ready)() {
        Ok(()) => answer::json(StatusCode::OK, &json!({"status": "ready"})),
        Err(why) => answer::json(StatusCode::SERVICE_UNAVAILABLE, &json!({"status": why})),
    }
}

fn metrics(state: &AdminState) -> Result<Answer, AdminError> {
    let text = state.metrics.encode().map_err(|error| AdminError::Failed(error.to_string()))?;
    Ok(answer::text(StatusCode::OK, METRICS_TYPE, text))
}

async fn purge(state: &AdminState, request: Request<Incoming>) -> Result<Answer, AdminError> {
    if request.method() != Method::POST {
        return Err(AdminError::Method("POST"));
    }
    let wanted = purge::read(&body(request).await?)?;
    let purged = (state.purge)(wanted).await?;
    Ok(answer::json(StatusCode::OK, &purged))
}

async fn body(request: Request<Incoming>) -> Result<Bytes, AdminError> {
    if request.body().size_hint().lower() > BODY_BYTES as u64 {
        return Err(AdminError::BodyTooLarge);
    }
    let whole = Limited::new(request.into_body(), BODY_BYTES).collect();
    match tokio::time::timeout(BODY_TIME, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(AdminError::BodyTooLarge),
        _ => Err(AdminError::BodyIncomplete),
    }
}
