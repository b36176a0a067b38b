package podman

// Mapped tells to which users the files of an image are shown to belong.
var Mapped = mapped
