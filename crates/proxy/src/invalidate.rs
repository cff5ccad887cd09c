//! Taking stored responses out: because a request changed the resource (RFC 9111 §4.4), or because an operator said so.

use store::Outbox;
use wire::ResponseHead;

use crate::exchange::Exchange;
use crate::worker::Shared;

/// After the answer to a request: what an unsafe method has changed is no longer served.
pub fn after(x: &Exchange<'_>, response: &ResponseHead<'_>) {
    let request = x.request;
    let mut out = Outbox::new();
    for key in semantics::invalidation::invalidated(request.traits.method, &request.uri, response) {
        forget(&x.worker.shared, &key, &mut out);
    }
    x.worker.disk.carry_out(out);
}

/// Takes the resource with this key, all its variants and what is being fetched for it out of the cache. Says whether
/// anything was stored.
pub fn forget(shared: &Shared, key: &[u8], out: &mut Outbox) -> bool {
    let hash = shared.cache.hash(key);
    shared.collapse.forget(hash);
    shared.cache.remove(hash, out)
}
