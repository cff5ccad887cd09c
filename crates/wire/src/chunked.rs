//! Chunked transfer coding (RFC 9112 §7.1): which bytes of a stream are framing and which are payload. The
//! decoder never touches payload, so the caller can move it by `splice` or receive it where it belongs.
//!
//! ```text
//!  Size ──hex──▶ Size ──CR──▶ SizeLf ──LF, size > 0──▶ Payload ──moved──▶ PayloadCr ──CR──▶ PayloadLf ──LF──▶ Size
//!   └──";"──▶ Extension ──CR──▶ SizeLf ──LF, size = 0──▶ Trailers ──blank line──▶ Done
//! ```
//!
//! What must hold: the steps do not depend on how the stream is cut, nothing grows past the limits, and a size
//! has one reading: hexadecimal digits directly followed by `;` or CRLF. Extensions are for one connection only
//! (RFC 9112 §7.1.1) and are dropped; trailer fields that would frame, route or authenticate are dropped too.

use crate::chars;
use crate::fields::may_trail;
use crate::framing::BODY_BYTES_MAX;
use crate::head::Fields;
use crate::limits::{FIELDS_MAX, Limits};
use crate::parse::field_section;
use crate::refusal::Refusal;
use crate::write;
use alloc::vec::Vec;
use core::mem;
use core::num::NonZeroU64;
use smallvec::SmallVec;

/// Digits of the longest chunk size.
const SIZE_DIGITS_MAX: u8 = 16;

/// What follows the payload of each chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The end of a chunked body without trailers: the last chunk and the blank line.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// What comes next in the stream. `consumed` counts framing bytes at the front of the input, which are done with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// All of the input was framing; call again with what comes after it.
    NeedMore {
        /// The length of the input.
        consumed: usize,
    },
    /// After `consumed` bytes come `len` bytes of payload, in the input or still in the socket. Tell
    /// [`ChunkedDecoder::payload_moved`] of each part that is gone before calling again.
    Payload {
        /// Framing bytes before the payload.
        consumed: usize,
        /// What is left of this chunk's payload, at least 1; usually more than the input holds.
        len: u64,
    },
    /// The body ended; after `consumed` bytes comes the next message.
    Done {
        /// Framing bytes before the end.
        consumed: usize,
        /// The trailer section.
        trailers: Trailers,
    },
}

/// Reads the framing of one chunked body.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    /// Extension bytes that no payload has followed yet.
    unpaid_extension_bytes: usize,
    /// The trailer section so far.
    trailers: Trailers,
    /// Where in the trailer section the current line begins.
    trailer_line: usize,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Size { size: u64, digits: u8 },
    Extension { size: u64 },
    SizeLf { size: u64 },
    Payload { left: NonZeroU64 },
    PayloadCr,
    PayloadLf,
    Trailers,
    Done,
}

const START: State = State::Size { size: 0, digits: 0 };

impl ChunkedDecoder {
    /// At the front of a body. Of the limits, `fields`, `trailer_bytes` and `extension_bytes` count.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self {
            state: START,
            unpaid_extension_bytes: 0,
            trailers: Trailers::default(),
            trailer_line: 0,
            limits: *limits,
        }
    }

    /// Reads framing from the front of `input` up to the next payload or the end. Any input will do, an empty
    /// one too. After a refusal the body is broken for good.
    pub fn next(&mut self, input: &[u8]) -> Result<Step, Refusal> {
        let mut bytes = input.iter();
        loop {
            let consumed = input.len() - bytes.len();
            match self.state {
                State::Payload { left } => return Ok(Step::Payload { consumed, len: left.get() }),
                State::Done => return Ok(Step::Done { consumed, trailers: mem::take(&mut self.trailers) }),
                _ => match bytes.next() {
                    Some(&byte) => self.state = self.after(byte)?,
                    None => return Ok(Step::NeedMore { consumed }),
                },
            }
        }
    }

    /// Takes note that `moved` bytes of the payload announced by the last [`Step::Payload`] are gone.
    ///
    /// # Panics
    /// If more is reported than was announced: from there on framing and payload would be confused.
    pub fn payload_moved(&mut self, moved: u64) {
        let left = match self.state {
            State::Payload { left } => left.get(),
            _ => 0,
        };
        assert!(moved <= left, "{moved} bytes of payload moved, {left} announced");
        if moved > 0 {
            self.state =
                NonZeroU64::new(left - moved).map_or(State::PayloadCr, |left| State::Payload { left });
        }
    }

    /// The state after one byte of framing.
    fn after(&mut self, byte: u8) -> Result<State, Refusal> {
        match self.state {
            State::Size { size, digits } => after_size(byte, size, digits),
            State::Extension { size } => self.after_extension(byte, size),
            State::SizeLf { size } if byte == b'\n' => Ok(self.begin_chunk(size)),
            State::SizeLf { .. } => Err(Refusal::BareCr),
            State::PayloadCr if byte == b'\r' => Ok(State::PayloadLf),
            State::PayloadLf if byte == b'\n' => Ok(START),
            State::PayloadCr | State::PayloadLf => Err(Refusal::BadChunkEnd),
            State::Trailers => self.after_trailer(byte),
            State::Payload { .. } | State::Done => Ok(self.state),
        }
    }

    fn after_extension(&mut self, byte: u8, size: u64) -> Result<State, Refusal> {
        match byte {
            b'\r' => return Ok(State::SizeLf { size }),
            b'\n' => return Err(Refusal::BareLf),
            0 => return Err(Refusal::Nul),
            _ if !chars::is_field_content(&[byte]) => return Err(Refusal::BadChunkExtension),
            _ => {}
        }
        self.unpaid_extension_bytes += 1;
        if self.unpaid_extension_bytes > self.limits.extension_bytes {
            return Err(Refusal::ChunkExtensionTooLong);
        }
        Ok(State::Extension { size })
    }

    /// Payload pays for extensions byte by byte, so that a long signed stream passes and a stream of nothing but
    /// extensions does not.
    fn begin_chunk(&mut self, size: u64) -> State {
        let paid = usize::try_from(size).unwrap_or(usize::MAX);
        self.unpaid_extension_bytes = self.unpaid_extension_bytes.saturating_sub(paid);
        NonZeroU64::new(size).map_or(State::Trailers, |left| State::Payload { left })
    }

    fn after_trailer(&mut self, byte: u8) -> Result<State, Refusal> {
        self.trailers.section.push(byte);
        let line = &self.trailers.section[self.trailer_line..];
        if self.trailers.section.len() > self.limits.trailer_bytes.saturating_add(CHUNK_END.len()) {
            return Err(Refusal::TrailersTooLong);
        }
        if byte != b'\n' {
            return Ok(State::Trailers);
        }
        match line.strip_suffix(b"\r\n") {
            None => Err(Refusal::BareLf),
            Some([]) => self.end_trailers(),
            Some(_) => self.end_trailer_line(),
        }
    }

    fn end_trailer_line(&mut self) -> Result<State, Refusal> {
        self.trailer_line = self.trailers.section.len();
        self.trailers.lines += 1;
        if self.trailers.lines > self.limits.fields.min(FIELDS_MAX) {
            return Err(Refusal::TooManyFields);
        }
        Ok(State::Trailers)
    }

    fn end_trailers(&mut self) -> Result<State, Refusal> {
        if self.trailers.lines == 0 {
            self.trailers = Trailers::default();
        } else {
            self.trailers.read(&mut Fields::new())?;
        }
        Ok(State::Done)
    }
}

fn after_size(byte: u8, size: u64, digits: u8) -> Result<State, Refusal> {
    match byte {
        b'\n' => Err(Refusal::BareLf),
        b'\r' | b';' if digits == 0 || size > BODY_BYTES_MAX => Err(Refusal::BadChunkSize),
        b'\r' => Ok(State::SizeLf { size }),
        b';' => Ok(State::Extension { size }),
        _ if digits == SIZE_DIGITS_MAX => Err(Refusal::BadChunkSize),
        _ => {
            let digit = (byte as char).to_digit(16).ok_or(Refusal::BadChunkSize)?;
            Ok(State::Size { size: size << 4 | u64::from(digit), digits: digits + 1 })
        }
    }
}

/// The trailer section of a chunked body, read and found well-formed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trailers {
    /// Field lines and blank line as received; empty if there are no field lines, and then never allocated.
    section: SmallVec<[u8; 16]>,
    lines: usize,
}

impl Trailers {
    /// The fields that may be sent on ([`may_trail`]); the others are dropped here.
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        let (mut all, mut fields) = (Fields::new(), Fields::new());
        if self.lines > 0 {
            let read = self.read(&mut all);
            debug_assert!(read.is_ok(), "the decoder read the section before it handed it out");
        }
        for field in all.iter().filter(|field| may_trail(field.name)) {
            fields.push(field.name, field.value);
        }
        fields
    }

    fn read<'a>(&'a self, fields: &mut Fields<'a>) -> Result<(), Refusal> {
        field_section(&self.section, self.lines, fields)
    }
}

/// A chunked body that was decoded in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The payload of all chunks.
    pub payload: Vec<u8>,
    /// The trailer section.
    pub trailers: Trailers,
    /// Bytes of the input that the body took.
    pub len: usize,
}

/// Decodes a chunked body that is all in `input`, copying the payload. `None` if it goes on past the end.
pub fn decode(input: &[u8], limits: &Limits) -> Result<Option<Decoded>, Refusal> {
    let mut decoder = ChunkedDecoder::new(limits);
    let mut payload = Vec::new();
    let mut rest = input;
    loop {
        match decoder.next(rest)? {
            Step::NeedMore { .. } => return Ok(None),
            Step::Payload { consumed, len } => {
                rest = &rest[consumed..];
                let Some((chunk, after)) =
                    usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len))
                else {
                    return Ok(None);
                };
                payload.extend_from_slice(chunk);
                decoder.payload_moved(len);
                rest = after;
            }
            Step::Done { consumed, trailers } => {
                return Ok(Some(Decoded { payload, trailers, len: input.len() - rest.len() + consumed }));
            }
        }
    }
}

/// Writes what goes before `len` bytes of payload (RFC 9112 §7.1): the size and CRLF. [`CHUNK_END`] goes after.
/// A chunk without payload cannot be written, for it would end the body.
#[must_use]
pub fn chunk_header(len: NonZeroU64, buffer: &mut [u8; 18]) -> &[u8] {
    buffer[16..].copy_from_slice(CHUNK_END);
    let mut at = 16;
    let mut rest = len.get();
    while rest > 0 {
        at -= 1;
        buffer[at] = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
    }
    &buffer[at..]
}

/// Appends the last chunk, the trailers that may be sent ([`may_trail`]), and the blank line.
pub fn write_end(out: &mut Vec<u8>, trailers: &Fields<'_>) {
    out.extend_from_slice(b"0\r\n");
    for field in trailers.iter().filter(|field| may_trail(field.name)) {
        write::field(out, field.name, field.value);
    }
    write::end_head(out);
}

#[cfg(test)]
mod tests;
