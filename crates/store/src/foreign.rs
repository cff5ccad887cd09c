//! What a device already holds, told from its first bytes: what `format` refuses to overwrite unasked.
//!
//! A table of magic numbers, the most telling first; anything that is not zero is something.

/// Bytes from the start of a device that [`detect`] wants (all there are of a shorter one).
pub const DETECT_BYTES: usize = 128 << 10;

/// What [`detect`] calls a device that is a store already.
pub const STORE: &str = "a tidegate store";

struct Mark {
    name: &'static str,
    offset: usize,
    magic: &'static [u8],
}

const fn mark(name: &'static str, offset: usize, magic: &'static [u8]) -> Mark {
    Mark { name, offset, magic }
}

/// Marks of boot sectors and partition tables come last: file systems carry them too.
const MARKS: &[Mark] = &[
    mark(STORE, 16 << 10, b"TIDEGATE"),
    mark("an ext2, ext3 or ext4 filesystem", 0x438, &[0x53, 0xef]),
    mark("an XFS filesystem", 0, b"XFSB"),
    mark("a btrfs filesystem", 0x1_0040, b"_BHRfS_M"),
    mark("an f2fs filesystem", 0x400, &[0x10, 0x20, 0xf5, 0xf2]),
    mark("a bcachefs or bcache device", 0x1018, &[0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca]),
    mark("an erofs filesystem", 0x400, &[0xe2, 0xe1, 0xf5, 0xe0]),
    mark("a squashfs image", 0, b"hsqs"),
    mark("an ISO 9660 filesystem", 0x8001, b"CD001"),
    mark("an LVM physical volume", 0x200, b"LABELONE"),
    mark("an LVM physical volume", 0, b"LABELONE"),
    mark("a LUKS encrypted volume", 0, b"LUKS\xba\xbe"),
    mark("a software RAID member", 0x1000, &[0xfc, 0x4e, 0x2b, 0xa9]),
    mark("a software RAID member", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    mark("swap space", 0xff6, b"SWAPSPACE2"),
    mark("swap space", 0xff6, b"SWAP-SPACE"),
    mark("an NTFS filesystem", 3, b"NTFS    "),
    mark("an exFAT filesystem", 3, b"EXFAT   "),
    mark("a FAT filesystem", 0x36, b"FAT"),
    mark("a FAT filesystem", 0x52, b"FAT32"),
    mark("a GUID partition table", 0x200, b"EFI PART"),
    mark("a GUID partition table", 0x1000, b"EFI PART"),
    mark("a partition table or boot sector", 0x1fe, &[0x55, 0xaa]),
];

/// ZFS keeps 128 KiB labels with uberblocks from 128 KiB on, and name-value pairs from 16 KiB.
const ZFS_PAIRS_AT: usize = 16 << 10;

/// Names what `front`, the first [`DETECT_BYTES`] of a device, shows; `None` where all of it is zero.
pub fn detect(front: &[u8]) -> Option<&'static str> {
    let at = |mark: &Mark| front.get(mark.offset..).is_some_and(|rest| rest.starts_with(mark.magic));
    if let Some(found) = MARKS.iter().find(|mark| at(mark)) {
        return Some(found.name);
    }
    if is_zfs(front) {
        return Some("a ZFS pool member");
    }
    front.iter().any(|&byte| byte != 0).then_some("data of an unknown kind")
}

/// The pairs of a ZFS label are XDR with the pool's version first.
fn is_zfs(front: &[u8]) -> bool {
    let pairs = front.get(ZFS_PAIRS_AT..ZFS_PAIRS_AT + 256).unwrap_or_default();
    pairs.windows(7).any(|window| window == b"version") && pairs.starts_with(&[1, 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_found_and_zeros_are_nothing() {
        for mark in MARKS {
            let mut front = vec![0; DETECT_BYTES];
            front[mark.offset..mark.offset + mark.magic.len()].copy_from_slice(mark.magic);
            assert_eq!(detect(&front), Some(mark.name));
        }
        assert_eq!(detect(&vec![0; DETECT_BYTES]), None);
        assert_eq!(detect(&[]), None);
    }

    #[test]
    fn a_filesystem_with_a_boot_sector_is_named_as_filesystem() {
        let mut front = vec![0; DETECT_BYTES];
        front[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        front[3..11].copy_from_slice(b"NTFS    ");
        assert_eq!(detect(&front), Some("an NTFS filesystem"));
    }

    #[test]
    fn other_data_is_data() {
        let mut front = vec![0; DETECT_BYTES];
        front[100_000] = 1;
        assert_eq!(detect(&front), Some("data of an unknown kind"));
        let mut zfs = vec![0; DETECT_BYTES];
        zfs[ZFS_PAIRS_AT..ZFS_PAIRS_AT + 2].copy_from_slice(&[1, 1]);
        zfs[ZFS_PAIRS_AT + 20..ZFS_PAIRS_AT + 27].copy_from_slice(b"version");
        assert_eq!(detect(&zfs), Some("a ZFS pool member"));
    }
}
