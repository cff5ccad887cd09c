//! What the RFCs leave to whoever runs the cache. A value handed to the questions that need it; nothing global.

use crate::time::Seconds;

/// The choices of one site or listener. [`Policy::default`] is what the RFCs recommend, and the careful side
/// where they are silent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Heuristic freshness as a share of the time since `Last-Modified`, in percent (RFC 9111 §4.2.2).
    pub heuristic_percent: u8,
    /// The longest heuristic freshness lifetime.
    pub heuristic_max: Seconds,
    /// The longest lifetime of any kind; what the origin asks beyond it is cut.
    pub lifetime_max: Seconds,
    /// Whether a response with `Set-Cookie` is stored although the origin did not say `public` or `s-maxage`.
    /// RFC 9111 §7.3 allows it; one client's cookie served to all others is the classic accident, hence off.
    pub store_set_cookie: bool,
    /// Whether `stale-while-revalidate` and `stale-if-error` hold in a response that also has `s-maxage`.
    /// RFC 9111 §5.2.2.10 gives `s-maxage` the meaning of `proxy-revalidate`, hence off; origins that write both
    /// often mean otherwise.
    pub stale_beside_s_maxage: bool,
    /// Whether `CDN-Cache-Control` replaces `Cache-Control` and `Expires` (RFC 9213): for reverse proxies.
    pub targeted: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            heuristic_percent: 10,
            heuristic_max: Seconds(86_400),
            lifetime_max: Seconds::MAX_DELTA,
            store_set_cookie: false,
            stale_beside_s_maxage: false,
            targeted: false,
        }
    }
}
