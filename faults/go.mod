module github.com/redimutex/redimutex/faults

go 1.26.0

replace github.com/redimutex/redimutex => ../
