//! The codes of reports.

use std::fmt;

macro_rules! groups {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $mark:literal, $default:literal;)*) => {
        /// A group of checks, as users ask for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Group { $($(#[$doc])* $name,)* }

        impl Group {
            /// Every group.
            pub const ALL: &'static [Group] = &[$(Group::$name),*];

            /// The word that asks for it.
            pub const fn word(self) -> &'static str { match self { $(Group::$name => $word,)* } }

            /// Whether it is on unless others are asked for.
            pub const fn is_default(self) -> bool { match self { $(Group::$name => $default,)* } }

            /// The middle of its codes.
            const fn mark(self) -> &'static str { match self { $(Group::$name => $mark,)* } }
        }
    };
}

groups! {
    /// Handles that are stale, foreign, ended twice, left.
    Lifetime = "lifetime", "LIFETIME", true;
    /// Accesses to the same bytes that nothing orders.
    Races = "races", "ORDER", true;
    /// Accesses outside of buffers.
    Bounds = "bounds", "BOUNDS", true;
    /// Arguments and answers that the contract does not allow.
    Contract = "contract", "CONTRACT", true;
    /// What lies in memory.
    Content = "content", "CONTENT", false;
}

macro_rules! codes {
    ($($name:ident = $group:ident $number:literal, $title:literal;)*) => {
        /// What a report is about. A code never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code { $(#[doc = concat!("A ", $title, ".")] $name,)* }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// The group of its check.
            pub const fn group(self) -> Group { match self { $(Code::$name => Group::$group,)* } }

            /// Its number in the group.
            pub const fn number(self) -> u32 { match self { $(Code::$name => $number,)* } }

            /// What was found, in a few words.
            pub const fn title(self) -> &'static str { match self { $(Code::$name => $title,)* } }
        }
    };
}

codes! {
    UnknownHandle = Lifetime 1, "handle that was never given out";
    StaleHandle = Lifetime 2, "handle whose object has ended";
    EndedTwice = Lifetime 3, "object that is ended twice";
    ForeignObject = Lifetime 4, "object of another device";
    Left = Lifetime 5, "object that is left when its device is closed";
    BoundFreed = Lifetime 6, "program whose bound buffer was freed";
    ReadAfterWrite = Races 1, "read that may come before the write";
    WriteAfterRead = Races 2, "write that may come before the read";
    WriteAfterWrite = Races 3, "write that may come before another write";
    Outside = Bounds 1, "access outside of a buffer";
    Overflow = Bounds 2, "size that overflows";
    Overlap = Bounds 3, "output that overlaps";
    Pointer = Contract 1, "pointer that is null or misaligned";
    Reserved = Contract 2, "reserved field that is not 0";
    UnknownCode = Contract 3, "code that the contract does not have";
    Mismatch = Contract 4, "packet that does not fit its kernel or its list";
    WrongStatus = Contract 101, "status that the contract does not have";
    WrongHandle = Contract 102, "handle that is 0 or given out twice";
    NothingWritten = Contract 103, "success without a result";
    FailureWrote = Contract 104, "failed call that changed something";
    WrongSize = Contract 105, "length that does not fit";
    WrongStatistics = Contract 106, "statistics that contradict the calls";
    BackInTime = Contract 107, "event or stream that goes back in time";
    WrongRecord = Contract 108, "record of a profile that cannot be";
    Silent = Contract 109, "failure without a text";
    WrongAddress = Contract 110, "address that is misaligned or given to two buffers";
    Canary = Content 1, "canary behind a buffer that has changed";
    Fresh = Content 2, "read of memory that nobody has written";
    Changed = Content 3, "host memory that changes while it is in use";
}

impl Code {
    /// The heading of its section in `docs/validate.md`, as a link has it.
    pub fn anchor(self) -> String {
        self.to_string().to_lowercase()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TW-{}-{:03}", self.group().mark(), self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_section_and_no_section_is_of_another() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/validate.md");
        let page = std::fs::read_to_string(page).expect("the page is in the sources");
        let headings: Vec<&str> = (page.lines())
            .filter_map(|line| line.strip_prefix("### "))
            .collect();
        let codes: Vec<String> = Code::ALL.iter().map(Code::to_string).collect();
        assert_eq!(headings, codes);
    }

    #[test]
    fn codes_are_different() {
        let mut codes: Vec<String> = Code::ALL.iter().map(Code::to_string).collect();
        codes.sort();
        codes.dedup();
        assert_eq!(codes.len(), Code::ALL.len());
        assert_eq!(Code::WriteAfterWrite.to_string(), "TW-ORDER-003");
    }
}
