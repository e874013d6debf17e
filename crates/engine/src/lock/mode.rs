//! Lock modes: their compatibility, and the result of conversions.

/// A lock mode (Gray and Reuter, *Transaction Processing*, 7.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Some rows below will be read.
    IS,
    /// Some rows below will be written. On a gap: an insertion is under way.
    IX,
    /// Everything here is read.
    S,
    /// Everything here is read, some rows below will be written.
    SIX,
    /// Read now, perhaps written later. It is compatible with readers but not with another `U`, so two such
    /// transactions cannot deadlock on the conversion.
    U,
    /// Everything here is written.
    X,
}

use Mode::{IS, IX, S, SIX, U, X};

impl Mode {
    /// Every mode, in the order of the tables below.
    pub const ALL: [Mode; 6] = [IS, IX, S, SIX, U, X];

    /// Whether two transactions may hold these modes at the same time. Symmetric.
    pub fn is_compatible(self, other: Mode) -> bool {
        const YES: bool = true;
        const NO: bool = false;
        #[rustfmt::skip]
        const MATRIX: [[bool; 6]; 6] = [
            //       IS   IX   S    SIX  U    X
            /* IS */ [YES, YES, YES, YES, YES, NO],
            /* IX */ [YES, YES, NO,  NO,  NO,  NO],
            /* S  */ [YES, NO,  YES, NO,  YES, NO],
            /* SIX*/ [YES, NO,  NO,  NO,  NO,  NO],
            /* U  */ [YES, NO,  YES, NO,  NO,  NO],
            /* X  */ [NO,  NO,  NO,  NO,  NO,  NO],
        ];
        MATRIX[self as usize][other as usize]
    }

    /// The weakest mode that is as strong as both: the mode that results when a holder of one requests the other.
    pub fn supremum(self, other: Mode) -> Mode {
        #[rustfmt::skip]
        const MATRIX: [[Mode; 6]; 6] = [
            //       IS   IX   S    SIX  U    X
            /* IS */ [IS,  IX,  S,   SIX, U,   X],
            /* IX */ [IX,  IX,  SIX, SIX, SIX, X],
            /* S  */ [S,   SIX, S,   SIX, U,   X],
            /* SIX*/ [SIX, SIX, SIX, SIX, SIX, X],
            /* U  */ [U,   SIX, U,   SIX, U,   X],
            /* X  */ [X,   X,   X,   X,   X,   X],
        ];
        MATRIX[self as usize][other as usize]
    }

    /// Whether this mode includes `other`.
    pub fn covers(self, other: Mode) -> bool {
        self.supremum(other) == self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compatibility_is_symmetric_and_shrinks_with_strength() {
        for a in Mode::ALL {
            for b in Mode::ALL {
                assert_eq!(a.is_compatible(b), b.is_compatible(a), "{a:?} {b:?}");
                for c in Mode::ALL {
                    if a.supremum(b).is_compatible(c) {
                        assert!(a.is_compatible(c) && b.is_compatible(c), "{a:?} {b:?} {c:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn supremum_is_a_join() {
        for a in Mode::ALL {
            assert_eq!(a.supremum(a), a);
            for b in Mode::ALL {
                let both = a.supremum(b);
                assert_eq!(both, b.supremum(a), "{a:?} {b:?}");
                assert!(both.covers(a) && both.covers(b), "{a:?} {b:?} {both:?}");
                for c in Mode::ALL {
                    assert_eq!(both.supremum(c), a.supremum(b.supremum(c)), "{a:?} {b:?} {c:?}");
                }
            }
        }
    }
}
