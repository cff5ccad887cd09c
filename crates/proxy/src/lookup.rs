//! From a request to the stored response that matches it: key, then variant (RFC 9111 §2, §4.1).

use std::rc::Rc;
use std::sync::Arc;

use semantics::cache_status::Forward;
use store::{KeyHash, Table};

use crate::fill::Promised;
use crate::object::{Body, Content, DeviceBody, Head, Object};
use crate::purge::Seen;
use crate::request::Request;
use crate::worker::Worker;

/// What a lookup gives.
pub struct Found {
    /// Hash of the variant's key where the resource is known to vary, else of the resource's: what a fetch is
    /// collapsed under.
    pub hash: KeyHash,
    /// The stored response.
    pub response: Option<Response>,
    /// Why there is none.
    pub absence: Forward,
}

/// A stored response.
#[derive(Clone)]
pub struct Response {
    /// Its hash.
    pub hash: KeyHash,
    /// The object.
    pub object: Arc<Object>,
    /// Its head.
    pub head: Arc<Head>,
}

impl Response {
    /// The response in `object`, if that is one.
    #[must_use]
    pub fn of(hash: KeyHash, object: Arc<Object>) -> Option<Self> {
        let head = match &object.content {
            Content::Response(head, _) => Arc::clone(head),
            Content::Variants(_) => return None,
        };
        Some(Self { hash, object, head })
    }

    /// What is on its way, as if it were stored with nothing of its body.
    #[must_use]
    pub fn hole(promised: &Promised, length: u64) -> Self {
        let body = Body::Device(DeviceBody::new(&Table::hole(length), true, false));
        Self::made(promised.hash, promised.key.clone(), &promised.head, body)
    }

    /// The same without its place in the store, which has it no more.
    #[must_use]
    pub fn unplaced(&self) -> Self {
        let body = self.body().map_or_else(|| Body::Memory(Box::default()), Body::again);
        Self::made(self.hash, self.object.key.clone(), &self.head, body)
    }

    fn made(hash: KeyHash, key: Box<[u8]>, head: &Arc<Head>, body: Body) -> Self {
        let content = Content::Response(Arc::clone(head), body);
        let object = Object { key, content, place: None, seen: Seen::at(head.epoch) };
        Self { hash, object: Arc::new(object), head: Arc::clone(head) }
    }

    /// Its body.
    #[must_use]
    pub fn body(&self) -> Option<&Body> {
        match &self.object.content {
            Content::Response(_, body) => Some(body),
            Content::Variants(_) => None,
        }
    }
}

/// Looks the request up in memory and store.
pub async fn find(worker: &Rc<Worker>, request: &Request<'_>) -> Found {
    let shared = &worker.shared;
    let found = shared.cache.find(&worker.disk, request.hash, &request.key, &shared.policy).await;
    let Some(object) = found else {
        return Found::nothing(request.hash, Forward::UriMiss);
    };
    let Content::Variants(variants) = &object.content else {
        return Found::something(request.hash, object);
    };
    let (key, hash) = request.variant(shared, variants);
    match shared.cache.find(&worker.disk, hash, &key, &shared.policy).await {
        Some(object) => Found::something(hash, object),
        None => Found::nothing(hash, Forward::VaryMiss),
    }
}

/// The same from memory alone, without waiting.
#[must_use]
pub fn find_in_memory(worker: &Worker, request: &Request<'_>) -> Option<Arc<Object>> {
    let shared = &worker.shared;
    let object = shared.cache.find_in_memory(request.hash, &request.key)?;
    let Content::Variants(variants) = &object.content else { return Some(object) };
    let (key, hash) = request.variant(shared, variants);
    shared.cache.find_in_memory(hash, &key)
}

impl Found {
    fn nothing(hash: KeyHash, absence: Forward) -> Self {
        Self { hash, response: None, absence }
    }

    fn something(hash: KeyHash, object: Arc<Object>) -> Self {
        let response = Response::of(hash, object);
        Self { hash, response, absence: Forward::Miss }
    }
}
