//! Answers: a status, a media type and a whole body.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::AdminError;

pub(super) type Answer = Response<Full<Bytes>>;

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: ErrorWords<'a>,
}

#[derive(Serialize)]
struct ErrorWords<'a> {
    word: &'a str,
    message: String,
}

pub(super) fn text(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(mut body) => {
            body.push(b'\n');
            text(status, "application/json", body)
        }
        Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "application/json", "{}\n"),
    }
}

pub(super) fn refusal(error: &AdminError) -> Answer {
    let words = ErrorWords { word: error.word(), message: error.to_string() };
    let mut answer = json(status_of(error), &ErrorBody { error: words });
    if let AdminError::Method(allowed) = error {
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    }
    answer
}

const fn status_of(error: &AdminError) -> StatusCode {
    match error {
        AdminError::NotFound => StatusCode::NOT_FOUND,
        AdminError::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
        AdminError::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        AdminError::BodyIncomplete => StatusCode::REQUEST_TIMEOUT,
        AdminError::BadRequest(_) => StatusCode::BAD_REQUEST,
        AdminError::ForeignOrigin => StatusCode::FORBIDDEN,
        AdminError::ForeignHost => StatusCode::MISDIRECTED_REQUEST,
        AdminError::TooManyMarks(_) => StatusCode::INSUFFICIENT_STORAGE,
        AdminError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
