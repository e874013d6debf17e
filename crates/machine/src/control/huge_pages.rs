//! `huge_pages`: whether the kernel backs memory with huge pages without being asked. For the whole machine.

use super::kernel_word::KernelWord;

pub(super) static HUGE_PAGES: KernelWord = KernelWord {
    key: "huge_pages",
    unit: "always, madvise or never",
    meaning: "transparent huge pages, of the whole machine; memory that is there already keeps its pages",
    file: "/sys/kernel/mm/transparent_hugepage/enabled",
    words: &[("always", "always"), ("madvise", "madvise"), ("never", "never")],
    absent: "the kernel has no transparent huge pages",
    absent_is: None,
};
