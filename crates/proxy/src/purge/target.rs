//! What a mark names, and the part of a cache key that names the resource.
//!
//! A key is the resource's URI in its normal form (`semantics::key`); that of a variant goes on behind it with
//! [`VARIANT`], a byte that no URI has. So what is said of a URI holds for all variants of it.

/// Stands in the key of a variant between the resource and what selects the variant.
pub const VARIANT: u8 = 0;

/// What a mark names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// All variants of one resource.
    Url(Box<[u8]>),
    /// All resources whose URI begins with these bytes; with none, all of them.
    Prefix(Box<[u8]>),
    /// All responses that carry this tag.
    Tag(Box<[u8]>),
}

/// The URI in a cache key.
#[must_use]
pub fn resource(key: &[u8]) -> &[u8] {
    let end = key.iter().position(|byte| *byte == VARIANT).unwrap_or(key.len());
    &key[..end]
}

impl Target {
    /// Whether this names the response with this key and these tags. The plain meaning; [`super::table`] has the quick
    /// one.
    #[cfg(test)]
    pub fn names(&self, key: &[u8], tags: &[u8]) -> bool {
        match self {
            Self::Url(url) => resource(key) == &**url,
            Self::Prefix(prefix) => resource(key).starts_with(prefix),
            Self::Tag(tag) => super::tags::each(tags).any(|other| other == &**tag),
        }
    }

    /// Whether this names all that `other` names.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Prefix(prefix), Self::Prefix(uri) | Self::Url(uri)) => uri.starts_with(prefix),
            (Self::Prefix(prefix), Self::Tag(_)) => prefix.is_empty(),
            (this, other) => this == other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_the_resource_does() {
        let rows: [(&[u8], &[u8], bool); 9] = [
            (b"http://a/b", b"http://a/b", true),
            (b"http://a/b", b"http://a/bc", true),
            (b"http://a/b", b"http://a/b?q", true),
            (b"http://a/b/", b"http://a/b", false),
            (b"http://a/b", b"http://a/b\0variant", true),
            (b"http://a/bvar", b"http://a/b\0variant", false),
            (b"http://a/", b"http://a:81/", false),
            (b"http://a/", b"https://a/", false),
            (b"", b"http://a/", true),
        ];
        for (prefix, key, expected) in rows {
            let named = Target::Prefix(prefix.into()).names(key, b"");
            assert_eq!(named, expected, "{} {}", prefix.escape_ascii(), key.escape_ascii());
        }
    }

    #[test]
    fn a_url_is_all_its_variants_and_nothing_else() {
        let url = Target::Url(b"http://a/b"[..].into());
        assert!(url.names(b"http://a/b", b"") && url.names(b"http://a/b\0\0x", b""));
        assert!(!url.names(b"http://a/bc", b"") && !url.names(b"http://a/", b""));
    }
}
