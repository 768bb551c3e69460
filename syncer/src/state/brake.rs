//! When deletions wait to be confirmed.

/// When the brake holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Brake {
    /// It holds where more than so many of a hundred children would go.
    pub percent: u8,
    /// It never holds where fewer would go.
    pub count_min: usize,
}

// === impl Brake ===

impl Default for Brake {
    fn default() -> Self {
        Self {
            percent: 50,
            count_min: 5,
        }
    }
}

impl Brake {
    /// Returns whether so many of all children may not go without a word.
    pub(crate) const fn holds(self, going: usize, all: usize) -> bool {
        going >= self.count_min && going * 100 > all * self.percent as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brake_holds_where_most_of_many_would_go() {
        // (children that would go, of how many, whether it holds)
        for (going, all, want) in [
            (0, 0, false),
            (4, 4, false),
            (5, 5, true),
            (5, 9, true),
            (5, 10, false),
            (6, 10, true),
            (50, 100, false),
            (51, 100, true),
        ] {
            let holds = Brake::default().holds(going, all);
            assert_eq!(holds, want, "{going} of {all}");
        }
        let off = Brake {
            percent: 100,
            ..Brake::default()
        };
        assert!(!off.holds(9, 9), "it can be taken off");
    }
}
