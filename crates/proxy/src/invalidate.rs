//! Taking stored responses out: because a request changed the resource (RFC 9111 §4.4), or because an operator said so.
//!
//! One resource is taken out at once: a tombstone in the store, nothing in memory, fills that nobody joins. What names
//! many, or is to go stale only, becomes a mark ([`crate::purge`]).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use semantics::UnixSeconds;
use store::Outbox;
use wire::ResponseHead;

use crate::admin::{AdminError, PurgeRequest, Purged, What};
use crate::exchange::Exchange;
use crate::purge::{Firmness, NotKept, Target};
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
fn forget(shared: &Shared, key: &[u8], out: &mut Outbox) -> bool {
    let hash = shared.cache.hash(key);
    shared.collapse.forget(hash);
    shared.cache.remove(hash, out)
}

/// Does what an operator asked for.
///
/// # Errors
/// [`AdminError`].
pub fn purge(shared: &Shared, asked: &PurgeRequest, out: &mut Outbox) -> Result<Purged, AdminError> {
    let target = match (&asked.what, asked.soft) {
        (What::Url(url), false) => {
            let purged = forget(shared, &url.key(), out);
            return Ok(Purged { purged: Some(u64::from(purged)), ..Purged::default() });
        }
        (What::All, false) => return purge_all(shared, out),
        (What::Url(url), true) => Target::Url(url.key().into()),
        (What::Prefix(prefix), _) => Target::Prefix(prefix.key().into()),
        (What::Tag(tag), _) => Target::Tag(tag.clone()),
        (What::All, true) => Target::Prefix(Box::default()),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let firmness = if asked.soft { Firmness::Soft(UnixSeconds(now)) } else { Firmness::Hard };
    let cache = &shared.cache;
    let epoch = cache.purges.set(&cache.store, target, firmness).map_err(refused)?;
    Ok(Purged { mark: Some(epoch), ..Purged::default() })
}

/// Everything that is stored, in memory, or on its way.
fn purge_all(shared: &Shared, out: &mut Outbox) -> Result<Purged, AdminError> {
    let cache = &shared.cache;
    let objects = cache.store.stats().objects;
    // First the mark: what is stored from here on was asked for afterwards.
    let kept = cache.purges.set_all(&cache.store);
    shared.collapse.forget_all();
    cache.store.clear(out);
    cache.memory.clear();
    kept.map_err(refused)?;
    Ok(Purged { purged: Some(objects), ..Purged::default() })
}

fn refused(why: NotKept) -> AdminError {
    match why {
        NotKept::Full { .. } => AdminError::TooManyMarks(why.to_string()),
        NotKept::Forgetful(_) => AdminError::Failed(why.to_string()),
    }
}

/// How often the store is asked whether a checkpoint is done.
const LOOK: Duration = Duration::from_millis(5);

/// How long a purge may take to become durable.
const DURABLE_WITHIN: Duration = Duration::from_secs(20);

/// Waits for a checkpoint where that was asked for, so that what was purged stays away whatever happens.
///
/// # Errors
/// [`AdminError::Failed`] when none is completed in time. What was purged is purged all the same.
pub async fn until_durable(
    shared: &Shared,
    asked: &PurgeRequest,
    purged: Purged,
) -> Result<Purged, AdminError> {
    if !asked.durable {
        return Ok(purged);
    }
    let store = &shared.cache.store;
    let number = store.ask_checkpoint();
    let done = async {
        while store.checkpoints() < number {
            tokio::time::sleep(LOOK).await;
        }
    };
    match tokio::time::timeout(DURABLE_WITHIN, done).await {
        Ok(()) => Ok(Purged { durable: Some(true), ..purged }),
        Err(_) => {
            Err(AdminError::Failed("purged, but no checkpoint was completed: a crash may undo it".into()))
        }
    }
}
