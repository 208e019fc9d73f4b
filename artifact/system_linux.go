package artifact

import "syscall"

func changeTime(stat *syscall.Stat_t) int64 { return stat.Ctim.Nano() }

func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
