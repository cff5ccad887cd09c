//! Foreign bytes made fit for one line of text: no control character, no quote and no separator of the format comes
//! through, and what was escaped can be told from what was not.

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Inside double quotes, as web servers log: printable ASCII stays, `"` and `\` get a backslash, everything else
/// becomes `\xhh`.
pub(super) fn quoted(out: &mut Vec<u8>, bytes: &[u8]) {
    each_stretch(out, bytes, is_plain, |out, byte| match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        _ => push_hex(out, b"\\x", byte),
    });
}

/// One field of a line that is split at spaces: printable ASCII stays; spaces, control characters, `"`, `\` and
/// everything beyond ASCII become `%hh`, as in a URI (RFC 3986 §2.1).
pub(super) fn spaceless(out: &mut Vec<u8>, bytes: &[u8]) {
    let plain = |byte| is_plain(byte) && byte != b' ';
    each_stretch(out, bytes, plain, |out, byte| push_hex(out, b"%", byte));
}

/// Inside a JSON string (RFC 8259 §7): valid UTF-8 stays, control characters and line separators are escaped, each
/// invalid sequence becomes U+FFFD.
pub(super) fn json(out: &mut Vec<u8>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        bytes = copy_while(out, bytes, is_plain);
        let odd = bytes.iter().position(|byte| is_plain(*byte)).unwrap_or(bytes.len());
        json_odd(out, &bytes[..odd]);
        bytes = &bytes[odd..];
    }
}

fn json_odd(out: &mut Vec<u8>, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push_json_char(out, c));
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

/// Printable ASCII that no format escapes between quotes.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

/// Copies stretches of plain bytes whole, which is nearly all there is, and escapes the others one by one.
fn each_stretch(
    out: &mut Vec<u8>,
    mut bytes: &[u8],
    plain: impl Fn(u8) -> bool,
    escape: impl Fn(&mut Vec<u8>, u8),
) {
    loop {
        bytes = copy_while(out, bytes, &plain);
        let Some((first, rest)) = bytes.split_first() else { return };
        escape(out, *first);
        bytes = rest;
    }
}

/// Copies plain bytes up to the first other one; returns what is left.
fn copy_while<'a>(out: &mut Vec<u8>, bytes: &'a [u8], plain: impl Fn(u8) -> bool) -> &'a [u8] {
    let end = bytes.iter().position(|byte| !plain(*byte)).unwrap_or(bytes.len());
    let (copied, left) = bytes.split_at(end);
    out.extend_from_slice(copied);
    left
}

fn push_json_char(out: &mut Vec<u8>, c: char) {
    match c {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\u{2028}' | '\u{2029}' => push_json_unit(out, c),
        c if c.is_control() => push_json_unit(out, c),
        c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// `\u00hh`; only called for characters of one UTF-16 unit.
fn push_json_unit(out: &mut Vec<u8>, c: char) {
    let unit = c as u32;
    push_hex(out, b"\\u", (unit >> 8) as u8);
    push_hex(out, b"", unit as u8);
}

fn push_hex(out: &mut Vec<u8>, prefix: &[u8], byte: u8) {
    out.extend_from_slice(prefix);
    out.push(HEX[usize::from(byte >> 4)]);
    out.push(HEX[usize::from(byte & 15)]);
}
