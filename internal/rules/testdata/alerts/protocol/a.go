package protocol

type AlertInfo struct{ ID, Text string }
