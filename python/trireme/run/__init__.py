"""Running programs: executors, prepared runs, replicas on threads, operators on their own."""
