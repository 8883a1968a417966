module redis-throttle

go 1.25.0
