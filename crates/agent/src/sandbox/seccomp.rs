//! Which system calls a confined command is refused, as a program for the kernel.
//!
//! Everything else is allowed: namespaces and mounts already decide what can be reached, and this takes
//! away what reaches around them, or has been the way into the kernel again and again.

use std::collections::BTreeMap;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

/// Calls that are refused whatever their arguments.
const REFUSED: &[i64] = &[
    // Does what other calls do without making them, so that nothing here would see it.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // The memory of other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    // The kernel itself.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    // Keys are kept per user, not per namespace.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Mounts are what the sandbox is made of.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // A file by its number, past every folder on the way.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_setns,
];

/// Calls that only this kind of processor has.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_uselib];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// Kinds of sockets that no network namespace holds back, or that speak to the kernel.
const REFUSED_SOCKETS: &[i32] = &[
    libc::AF_VSOCK,
    libc::AF_ALG,
    libc::AF_PACKET,
    libc::AF_XDP,
    libc::AF_TIPC,
    libc::AF_RDS,
    libc::AF_CAN,
];

/// Calls that set the mode of a file, and which argument it is.
#[cfg(target_arch = "x86_64")]
const SET_MODE: &[(i64, u8)] = &[
    (libc::SYS_chmod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    (libc::SYS_creat, 1),
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 2),
];
#[cfg(not(target_arch = "x86_64"))]
const SET_MODE: &[(i64, u8)] =
    &[(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (FCHMODAT2, 2), (libc::SYS_mknodat, 2)];

/// The same number everywhere, since Linux 6.6.
const FCHMODAT2: i64 = 452;

/// Calls that open a file, and which argument says how; the next one is the mode of a new one.
#[cfg(target_arch = "x86_64")]
const OPEN: &[(i64, u8)] = &[(libc::SYS_open, 1), (libc::SYS_openat, 2)];
#[cfg(not(target_arch = "x86_64"))]
const OPEN: &[(i64, u8)] = &[(libc::SYS_openat, 2)];

/// Requests to a terminal: typing into it, pasting into it.
const REFUSED_REQUESTS: [u64; 2] = [0x5412 /* TIOCSTI */, 0x541c /* TIOCLINUX */];

/// From here up x86-64 counts the calls of its x32 programs, which have numbers of their own.
const FIRST_OF_X32: u32 = 0x4000_0000;

// Classic BPF, as in linux/filter.h and linux/bpf_common.h.
const LOAD: u16 = 0x20;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_FROM: u16 = 0x35;
const RETURN: u16 = 0x06;
/// Where `struct seccomp_data` holds the number of the call, and the kind of processor.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const KILL_PROCESS: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;

#[cfg(target_arch = "x86_64")]
const OWN: (TargetArch, u32) = (TargetArch::x86_64, 0xc000_003e);
#[cfg(target_arch = "aarch64")]
const OWN: (TargetArch, u32) = (TargetArch::aarch64, 0xc000_00b7);

/// Calls that are refused where the command shares everything but files with the rest of the machine: owners
/// and attributes of any file that can be named, and what programs of one user share without files.
const REFUSED_AMONG_OTHERS: &[i64] = &[
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
];

/// The same numbers everywhere, since Linux 6.13 and 6.17.
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;

#[cfg(target_arch = "x86_64")]
const REFUSED_AMONG_OTHERS_HERE: &[i64] = &[libc::SYS_chown, libc::SYS_lchown];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_AMONG_OTHERS_HERE: &[i64] = &[];

/// What is left of the calls of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// What namespaces around it make harmless.
    Inside,
    /// What is harmless without any namespace. It makes no sockets but pairs of its own; with the network
    /// also those of the internet, which Landlock is told about.
    AmongOthers {
        /// Whether it has the network.
        network: bool,
    },
}

/// The program as bytes, as the kernel takes it; always the same.
pub(super) fn program() -> Vec<u8> {
    instructions(Kept::Inside).iter().flat_map(bytes).collect()
}

/// The program.
pub(super) fn instructions(kept: Kept) -> BpfProgram {
    let rules = rules(kept).expect("the conditions compare arguments that the calls have");
    let (arch, _) = OWN;
    let refusal = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch);
    let list: BpfProgram =
        (filter.and_then(TryInto::try_into)).expect("the list is short and its actions differ");
    prelude().into_iter().chain(list).collect()
}

/// What a list of numbers cannot say.
fn prelude() -> Vec<sock_filter> {
    let step = |code, k| sock_filter { code, jt: 0, jf: 0, k };
    let errno = |errno: i32| step(RETURN, ERRNO | errno.unsigned_abs());
    let number = |call: i64| u32::try_from(call).expect("the numbers of calls are small");
    let (_, arch) = OWN;
    vec![
        // Another kind of program has other numbers for the same calls.
        step(LOAD, ARCHITECTURE),
        sock_filter { jt: 1, ..step(JUMP_EQUAL, arch) },
        step(RETURN, KILL_PROCESS),
        step(LOAD, NUMBER),
        sock_filter { jf: 1, ..step(JUMP_FROM, FIRST_OF_X32) },
        errno(libc::EPERM),
        // Their flags lie in memory, where nothing here can read them. Told that there is no such call,
        // programs go on with the older one.
        sock_filter { jt: 1, ..step(JUMP_EQUAL, number(libc::SYS_clone3)) },
        sock_filter { jf: 1, ..step(JUMP_EQUAL, number(libc::SYS_openat2)) },
        errno(libc::ENOSYS),
    ]
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules(kept: Kept) -> Result<Rules, seccompiler::BackendError> {
    use SeccompCmpArgLen::{Dword, Qword};
    use SeccompCmpOp::{Eq, MaskedEq, Ne};

    let rule =
        |arg, len, op, value| SeccompRule::new(vec![SeccompCondition::new(arg, len, op, value)?]);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for call in REFUSED.iter().chain(REFUSED_HERE) {
        rules.insert(*call, Vec::new());
    }
    let new_user = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    for call in [libc::SYS_unshare, libc::SYS_clone] {
        rules.insert(call, vec![rule(0, Qword, MaskedEq(new_user), new_user)?]);
    }
    let family =
        |family: i32| SeccompCondition::new(0, Dword, Eq, u64::from(family.unsigned_abs()));
    let mut sockets = Vec::new();
    for refused in REFUSED_SOCKETS {
        sockets.push(SeccompRule::new(vec![family(*refused)?])?);
    }
    // The one protocol that programs ask for the addresses of this machine is number 0.
    let not_route = SeccompCondition::new(2, Dword, Ne, 0)?;
    sockets.push(SeccompRule::new(vec![family(libc::AF_NETLINK)?, not_route])?);
    rules.insert(libc::SYS_socket, sockets);
    // Files that run with the rights of whoever runs anvil, for everybody on the machine.
    let set_user = u64::from(libc::S_ISUID);
    for (call, mode) in SET_MODE {
        rules.insert(*call, vec![rule(*mode, Dword, MaskedEq(set_user), set_user)?]);
    }
    let create = u64::from(libc::O_CREAT.unsigned_abs());
    for (call, flags) in OPEN {
        let creates = SeccompCondition::new(*flags, Dword, MaskedEq(create), create)?;
        let sets = SeccompCondition::new(flags + 1, Dword, MaskedEq(set_user), set_user)?;
        rules.insert(*call, vec![SeccompRule::new(vec![creates, sets])?]);
    }
    let requests = REFUSED_REQUESTS.iter().map(|request| rule(1, Dword, Eq, *request));
    rules.insert(libc::SYS_ioctl, requests.collect::<Result<_, _>>()?);
    if let Kept::AmongOthers { network } = kept {
        refuse_among_others(&mut rules, network)?;
    }
    Ok(rules)
}

/// Adds what has to be refused where no namespace is around the command.
fn refuse_among_others(rules: &mut Rules, network: bool) -> Result<(), seccompiler::BackendError> {
    use SeccompCmpArgLen::Dword;
    use SeccompCmpOp::{Eq, MaskedEq, Ne};

    for call in REFUSED_AMONG_OTHERS.iter().chain(REFUSED_AMONG_OTHERS_HERE) {
        rules.insert(*call, Vec::new());
    }
    // A daemon behind a socket does what it is told, and nothing here sees which one is named. Without
    // conditions every socket is refused.
    let mut sockets = Vec::new();
    if network {
        let family =
            |op, family: i32| SeccompCondition::new(0, Dword, op, u64::from(family.unsigned_abs()));
        let kept = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
        let other = kept.map(|kept| family(Ne, kept)).into_iter().collect::<Result<_, _>>()?;
        let not_route = SeccompCondition::new(2, Dword, Ne, 0)?;
        sockets.push(SeccompRule::new(other)?);
        sockets.push(SeccompRule::new(vec![family(Eq, libc::AF_NETLINK)?, not_route])?);
    }
    rules.insert(libc::SYS_socket, sockets);
    // One of these can be turned to another address; the other kinds stay connected for good.
    let datagram = u64::from(libc::SOCK_DGRAM.unsigned_abs());
    let pair = SeccompCondition::new(1, Dword, MaskedEq(SOCKET_TYPE), datagram)?;
    rules.insert(libc::SYS_socketpair, vec![SeccompRule::new(vec![pair])?]);
    // Limits of another process.
    let other = SeccompCondition::new(0, Dword, Ne, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![other])?]);
    Ok(())
}

/// The part of a socket's type that is no flag, as in linux/net.h.
const SOCKET_TYPE: u64 = 0xf;

/// `struct sock_filter` of linux/filter.h.
fn bytes(one: &sock_filter) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..2].copy_from_slice(&one.code.to_ne_bytes());
    bytes[2] = one.jt;
    bytes[3] = one.jf;
    bytes[4..].copy_from_slice(&one.k.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_whole_instructions_and_within_the_kernels_limit() {
        let program = program();
        assert_eq!(program.len() % 8, 0);
        assert!(program.len() / 8 < 4096, "{} instructions", program.len() / 8);
        assert_eq!(program, super::program());
        for network in [true, false] {
            let longer = instructions(Kept::AmongOthers { network });
            assert!(longer.len() > program.len() / 8 && longer.len() < 4096);
        }
    }
}
