//! Looks up the names of users in `/etc/passwd`.
//!
//! A user without an entry (from a directory service, or outside the container) is shown as a number.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The users in `/etc/passwd`.
#[derive(Debug, Default)]
pub(super) struct Users(HashMap<u32, String>);

impl Users {
    /// Reads the file. If it cannot be read, every user is a number.
    pub(super) fn read(passwd: &Path) -> Self {
        Self::parse(&fs::read(passwd).unwrap_or_default())
    }

    /// Parses lines of `name:password:uid:gid:...`. The first line of a user id is used, as in getpwuid(3).
    fn parse(text: &[u8]) -> Self {
        let mut users = HashMap::new();
        for line in String::from_utf8_lossy(text).lines() {
            let mut fields = line.split(':');
            let (name, number) = (fields.next(), fields.nth(1).and_then(|number| number.parse().ok()));
            if let (Some(name), Some(number)) = (name.filter(|name| !name.is_empty()), number) {
                users.entry(number).or_insert_with(|| name.to_owned());
            }
        }
        Self(users)
    }

    /// The name of this user, or its number.
    pub(super) fn name(&self, number: u32) -> String {
        self.0.get(&number).cloned().unwrap_or_else(|| number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_without_a_name_is_a_number() {
        let users = Users::parse(
            b"root:x:0:0:root:/root:/bin/sh\n# note\n\ntoor:x:0:0::/:\n:x:5:5\nada:x:1000:1000::/:\nb\xff:x:7:7",
        );
        assert_eq!(users.name(0), "root", "the first line of a user id is used");
        assert_eq!(users.name(1000), "ada");
        assert_eq!(users.name(7), "b\u{fffd}");
        assert_eq!((users.name(5), users.name(65534)), ("5".to_owned(), "65534".to_owned()));
        assert_eq!(Users::read(Path::new("/no/such/file")).name(0), "0");
    }
}
