//! Which origins answer for which hosts (reverse mode).

use std::cell::Cell;
use std::rc::Rc;

use crate::origin::Endpoint;
use crate::settings::{OriginUrl, Site};

/// The sites of the configuration, ready for lookups. Exact names win over `*.suffix`, that over `*`.
#[derive(Clone)]
pub struct Sites {
    sites: Vec<Site>,
}

impl Sites {
    /// Takes the sites as configured.
    #[must_use]
    pub fn new(sites: Vec<Site>) -> Self {
        Self { sites }
    }

    /// The origins for `host` (lower case, no port).
    #[must_use]
    pub fn origins(&self, host: &str) -> Option<&[OriginUrl]> {
        let best = self.sites.iter().flat_map(|site| site.hosts.iter().map(move |pattern| (pattern, site)));
        let best = best.filter_map(|(pattern, site)| Some((specificity(pattern, host)?, site)));
        best.max_by_key(|(rank, _)| *rank).map(|(_, site)| site.origins.as_slice())
    }
}

/// How closely `pattern` names `host`; `None` when it does not.
fn specificity(pattern: &str, host: &str) -> Option<usize> {
    if pattern == host {
        return Some(usize::MAX);
    }
    if pattern == "*" {
        return Some(0);
    }
    let suffix = pattern.strip_prefix('*')?;
    host.strip_suffix(suffix).filter(|label| !label.is_empty()).map(|_| suffix.len())
}

thread_local! {
    static TURN: Cell<usize> = const { Cell::new(0) };
}

/// The origins of a site in the order in which to try them: each request begins with the next one.
#[must_use]
pub fn in_turn(origins: &[OriginUrl]) -> Vec<Rc<Endpoint>> {
    let first = TURN.with(|turn| turn.replace(turn.get().wrapping_add(1)));
    let order = (0..origins.len()).map(|i| &origins[(first.wrapping_add(i)) % origins.len()]);
    order.map(|origin| Rc::new(Endpoint { host: origin.host.clone(), port: origin.port })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(hosts: &[&str], port: u16) -> Site {
        let hosts = hosts.iter().map(|h| (*h).to_owned()).collect();
        Site { hosts, origins: vec![OriginUrl { host: "127.0.0.1".into(), port }] }
    }

    #[test]
    fn the_closest_name_wins() {
        let sites = Sites::new(vec![
            site(&["*"], 1),
            site(&["*.example.com"], 2),
            site(&["*.a.example.com"], 3),
            site(&["b.example.com"], 4),
        ]);
        let table = [
            ("other.org", 1),
            ("x.example.com", 2),
            ("x.a.example.com", 3),
            ("b.example.com", 4),
            ("example.com", 1),
        ];
        for (host, port) in table {
            assert_eq!(sites.origins(host).map(|o| o[0].port), Some(port), "{host}");
        }
    }

    #[test]
    fn a_host_of_no_site_has_no_origins() {
        assert!(Sites::new(vec![site(&["a"], 1)]).origins("b").is_none());
    }
}
