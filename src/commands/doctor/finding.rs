//! One thing that was looked at: what is, whether that is fine, and if not, what to do and why.

use serde_json::{Value, json};

/// Whether what is is fine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is.
    Fine,
    /// Nothing is wrong, but it is worth knowing.
    Note,
    /// It should be changed.
    Change,
    /// It could not be read.
    Unknown,
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Note => "note",
            Self::Change => "change",
            Self::Unknown => "unknown",
        }
    }
}

/// What to do, why, and by which command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advice {
    pub(super) what: String,
    pub(super) why: String,
    pub(super) command: Option<String>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) subject: String,
    pub(super) is: String,
    pub(super) verdict: Verdict,
    pub(super) advice: Option<Advice>,
}

impl Finding {
    pub(super) fn fine(subject: impl Into<String>, is: impl Into<String>) -> Self {
        Self { subject: subject.into(), is: is.into(), verdict: Verdict::Fine, advice: None }
    }

    pub(super) fn unknown(subject: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unknown, ..Self::fine(subject, "cannot be read here") }
    }

    /// Worth knowing, for this reason.
    pub(super) fn note(self, what: impl Into<String>, why: impl Into<String>) -> Self {
        let advice = Advice { what: what.into(), why: why.into(), command: None };
        Self { verdict: Verdict::Note, advice: Some(advice), ..self }
    }

    /// To be changed, for this reason.
    pub(super) fn change(self, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Change, ..self.note(what, why) }
    }

    /// By this command.
    pub(super) fn by(mut self, command: impl Into<String>) -> Self {
        if let Some(advice) = &mut self.advice {
            advice.command = Some(command.into());
        }
        self
    }
}

/// Looks at a number that may not have been read.
pub(super) fn of_number(
    subject: &str,
    number: Option<u64>,
    judge: impl FnOnce(u64, Finding) -> Finding,
) -> Finding {
    match number {
        Some(number) => judge(number, Finding::fine(subject, number.to_string())),
        None => Finding::unknown(subject),
    }
}

/// For people.
pub(super) fn as_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        text += &format!("{:<8} {}: {}\n", finding.verdict.word(), finding.subject, finding.is);
        let Some(advice) = &finding.advice else { continue };
        text += &format!("         - {}\n           because {}\n", advice.what, advice.why);
        if let Some(command) = &advice.command {
            text += &format!("           {command}\n");
        }
    }
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let (change, unknown) = (count(Verdict::Change), count(Verdict::Unknown));
    text + &format!("\n{change} to change, {unknown} unknown, of {}\n", findings.len())
}

/// For scripts.
pub(super) fn as_json(findings: &[Finding]) -> Value {
    let one = |finding: &Finding| {
        let advice = finding.advice.as_ref();
        json!({
            "subject": finding.subject,
            "is": finding.is,
            "verdict": finding.verdict.word(),
            "advice": advice.map(|advice| &advice.what),
            "because": advice.map(|advice| &advice.why),
            "command": advice.and_then(|advice| advice.command.as_ref()),
        })
    };
    let fine = findings.iter().all(|finding| finding.verdict != Verdict::Change);
    json!({ "fine": fine, "findings": findings.iter().map(one).collect::<Vec<_>>() })
}
